from service.engine.readiness import MODELS, STAGES, Stages


def test_ready_when_every_stage_is_done() -> None:
    stages = Stages()
    assert not stages.readiness.ready
    for number, stage in enumerate(STAGES):
        assert stages.readiness.reason == f"{STAGES[stage]}: 0% done"
        assert stages.readiness.fraction == number / len(STAGES)
        stages.report(stage)
        assert stages.is_done(stage)
    assert stages.readiness == (True, None, 1.0)


def test_models_may_come_later_for_answers() -> None:
    stages = Stages()
    for stage in list(STAGES)[:-1]:
        assert not stages.can_answer.ready
        stages.report(stage)
    assert stages.can_answer.ready
    stages.report(MODELS, 0.5, "compiling kernels for als: 20 of 40 done")
    assert stages.readiness == (False, "compiling kernels for als: 20 of 40 done", (len(STAGES) - 0.5) / len(STAGES))
    stages.obstruct("redis", "gone")
    assert not stages.can_answer.ready


def test_progress_never_goes_back() -> None:
    stages = Stages()
    stages.report("stream", 0.5)
    stages.report("stream", 0.2)
    assert stages.readiness.fraction == 0.5 / len(STAGES)


def test_an_obstacle_stands_in_the_way_until_it_is_cleared() -> None:
    stages = Stages()
    for stage in STAGES:
        stages.report(stage)
    stages.obstruct("redis", "Redis is gone")
    assert stages.readiness == (False, "Redis is gone", 1.0)
    stages.clear("redis")
    stages.clear("redis")
    is_ready, *_ = stages.readiness
    assert is_ready
