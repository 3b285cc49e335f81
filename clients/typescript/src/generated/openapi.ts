/** The types of the API. Made by `make clients` from the OpenAPI document of the service. */

export interface Schemas {
  /** Body of `POST /recommend` for ratings and events that are used once and not stored. */
  AnonymousBody: {
    /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
    wait_for?: string | null;
    /** Its body counts where the request names no field itself. */
    scenario?: string | null;
    /** How many results. */
    n?: number;
    /** How many of the best to leave out. */
    offset?: number;
    /** Items never to show; repeat the parameter for several. */
    exclude?: string[];
    /** Whether items that the user rated may be shown. */
    include_seen?: boolean;
    /**
     * Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
     * setting `repeat`.
     */
    repeat?: "auto" | "never" | "allow" | null;
    /**
     * Leave out only what the user has events of these types with, or has rated (rating). Default: the setting
     * `seen_types`.
     */
    seen_types?: string[];
    /** Show only items that have at least this many ratings now. */
    min_ratings?: number;
    /** Name of a live model; default: the first of `default_models`. */
    model?: string | null;
    /** Experiment whose arm for the user names the model. */
    experiment?: string | null;
    /** Add to each item the ratings that most raise its score. */
    explain?: boolean;
    /**
     * For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user if
     * the model can, else trending items where ratings have times, else popular ones.
     */
    fallback?: "auto" | "popular" | "trending" | "latest" | "none";
    /** Share of places for items with few ratings. */
    explore?: number;
    /** They have fewer ratings than this. */
    explore_below?: number;
    /** How much unlike items come first; 0 keeps the order of the scores. */
    diversity?: number;
    /** Add to each item its title, if it has one. */
    with?: "title" | null;
    /** The only items to rank; default: all. */
    candidates?: string[] | null;
    filter?: Schemas["Filter"] | null;
    /** Whether to leave out items that are not available now. */
    available?: boolean;
    /** Numbers added to the scores of items that pass a filter; they add up. */
    boosts?: Schemas["Boost"][];
    /** Items at fixed places. */
    pins?: Schemas["Pin"][];
    /** A limit for items with the same value of a tag. */
    max_per?: Schemas["MaxPer"] | null;
    rotate?: string | {
      /** A number and m, h or d: a showing that is older by this counts half. */
      half_life: string;
      /** What a showing takes off at first, in units of the score. */
      by?: number;
    } | null;
    /** Newer ratings after which a rating weighs half; default: all weigh alike. */
    order_half_life?: number | null;
    /** Empty: begin to read page by page. Else `next` of the page before, with equal parameters. */
    cursor?: string | null;
    /** Ratings of an anonymous user; nothing is stored. */
    ratings?: Schemas["ItemRating"][] | null;
    /** Events beside the stored ones; they add up, and nothing is stored. */
    events?: Schemas["ItemEvent"][] | null;
  };
  /** An arm of an experiment. */
  ArmBody: {
    /** Name of a model that answers. */
    model: string;
    /** Percentage of users who get it. */
    share: number;
  };
  /** A number that items which pass a filter get added to their scores. */
  Boost: {
    filter: Schemas["Filter"];
    /** In units of the score; below 0 lowers it. */
    add: number;
  };
  /** Body of an experiment. */
  ExperimentBody: {
    arms: Schemas["ArmBody"][];
    /** Decides with the user's id which arm it is; default: the id of the experiment. */
    salt?: string | null;
    /** Only users who pass it take part; default: all. */
    filter?: Schemas["Filter"] | null;
  };
  /** A rating that a user has beside the stored ones; null takes the stored one of the item away. */
  ExtraRating: {
    item: string;
    rating: number | null;
    /** Unix seconds, a date or a datetime; default: now. */
    timestamp?: number | null;
  };
  /** An event that is not stored. */
  ItemEvent: {
    item: string;
    /** One of the setting `events`. */
    type: string;
    /** Multiplies the weight of the type. */
    value?: number;
    /** Unix seconds, a date or a datetime; default: now. */
    timestamp?: number | null;
  };
  /** A rating that is not stored. */
  ItemRating: {
    item: string;
    rating: number;
    /** Unix seconds, a date or a datetime; default: now. */
    timestamp?: number | null;
  };
  JsonValue: unknown;
  /** Body of `POST /admin/keys`. */
  KeyBody: {
    /** Any name, to tell keys apart. */
    name: string;
    /** What the key may do. */
    scope: "read" | "write" | "read-write" | "admin";
    /** When the key ends by itself: Unix seconds, or a date or datetime of ISO 8601. Default: never. */
    expires?: number | string | null;
    /** The only data sets that it opens. Default: all. */
    data_sets?: string[] | null;
  };
  /** Body of `POST /admin/lists`: that of `POST /recommend` for lists in a file. */
  ListsBody: {
    /** Its body counts where the request names no field itself. */
    scenario?: string | null;
    /** All, or the ids of some. */
    users?: "all" | string[];
    /** How many results. */
    n?: number;
    /** How many of the best to leave out. */
    offset?: number;
    /** Items never to show; repeat the parameter for several. */
    exclude?: string[];
    /** Whether items that the user rated may be shown. */
    include_seen?: boolean;
    /**
     * Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
     * setting `repeat`.
     */
    repeat?: "auto" | "never" | "allow" | null;
    /**
     * Leave out only what the user has events of these types with, or has rated (rating). Default: the setting
     * `seen_types`.
     */
    seen_types?: string[];
    /** Show only items that have at least this many ratings now. */
    min_ratings?: number;
    /** Name of a live model; default: the first of `default_models`. */
    model?: string | null;
    /**
     * For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user if
     * the model can, else trending items where ratings have times, else popular ones.
     */
    fallback?: "auto" | "popular" | "trending" | "latest" | "none";
    /** Share of places for items with few ratings. */
    explore?: number;
    /** They have fewer ratings than this. */
    explore_below?: number;
    /** How much unlike items come first; 0 keeps the order of the scores. */
    diversity?: number;
    /** The only items to rank; default: all. */
    candidates?: string[] | null;
    filter?: Schemas["Filter"] | null;
    /** Whether to leave out items that are not available now. */
    available?: boolean;
    /** Numbers added to the scores of items that pass a filter; they add up. */
    boosts?: Schemas["Boost"][];
    /** Items at fixed places. */
    pins?: Schemas["Pin"][];
    /** A limit for items with the same value of a tag. */
    max_per?: Schemas["MaxPer"] | null;
    rotate?: string | {
      /** A number and m, h or d: a showing that is older by this counts half. */
      half_life: string;
      /** What a showing takes off at first, in units of the score. */
      by?: number;
    } | null;
    /** Lists for those of them who pass it alone; default: for all. */
    user_filter?: Schemas["Filter"] | null;
  };
  /** A limit for items with the same value of a tag. */
  MaxPer: {
    tag: string;
    /** Items with the same value, at most. */
    n: number;
  };
  /** Body of `POST /admin/users/{user}/merge`. */
  MergeBody: {
    /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
    wait_for?: string | null;
    /** The user who becomes part of the other one. */
    from: string;
  };
  /** An item at a fixed place, if the list may show it. */
  Pin: {
    item: string;
    /** Place in the list that begins at offset 0; the first is 1. */
    at: number;
  };
  /** Body of `POST /recommend/{user}`. */
  RecommendBody: {
    /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
    wait_for?: string | null;
    /** Its body counts where the request names no field itself. */
    scenario?: string | null;
    /** How many results. */
    n?: number;
    /** How many of the best to leave out. */
    offset?: number;
    /** Items never to show; repeat the parameter for several. */
    exclude?: string[];
    /** Whether items that the user rated may be shown. */
    include_seen?: boolean;
    /**
     * Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
     * setting `repeat`.
     */
    repeat?: "auto" | "never" | "allow" | null;
    /**
     * Leave out only what the user has events of these types with, or has rated (rating). Default: the setting
     * `seen_types`.
     */
    seen_types?: string[];
    /** Show only items that have at least this many ratings now. */
    min_ratings?: number;
    /** Name of a live model; default: the first of `default_models`. */
    model?: string | null;
    /** Experiment whose arm for the user names the model. */
    experiment?: string | null;
    /** Add to each item the ratings that most raise its score. */
    explain?: boolean;
    /**
     * For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user if
     * the model can, else trending items where ratings have times, else popular ones.
     */
    fallback?: "auto" | "popular" | "trending" | "latest" | "none";
    /** Share of places for items with few ratings. */
    explore?: number;
    /** They have fewer ratings than this. */
    explore_below?: number;
    /** How much unlike items come first; 0 keeps the order of the scores. */
    diversity?: number;
    /** Add to each item its title, if it has one. */
    with?: "title" | null;
    /** The only items to rank; default: all. */
    candidates?: string[] | null;
    filter?: Schemas["Filter"] | null;
    /** Whether to leave out items that are not available now. */
    available?: boolean;
    /** Numbers added to the scores of items that pass a filter; they add up. */
    boosts?: Schemas["Boost"][];
    /** Items at fixed places. */
    pins?: Schemas["Pin"][];
    /** A limit for items with the same value of a tag. */
    max_per?: Schemas["MaxPer"] | null;
    rotate?: string | {
      /** A number and m, h or d: a showing that is older by this counts half. */
      half_life: string;
      /** What a showing takes off at first, in units of the score. */
      by?: number;
    } | null;
    /** Newer ratings after which a rating weighs half; default: all weigh alike. */
    order_half_life?: number | null;
    /** Empty: begin to read page by page. Else `next` of the page before, with equal parameters. */
    cursor?: string | null;
    /** Answer as if the user had these ratings too; nothing is stored. */
    ratings?: Schemas["ExtraRating"][] | null;
    /** Events beside the stored ones; they add up, and nothing is stored. */
    events?: Schemas["ItemEvent"][] | null;
  };
  /** Body of `POST /admin/retrain`. */
  Retrain: {
    algorithm: "als" | "als-implicit" | "culsh" | "culsh-implicit" | "ease" | "esgd" | "neighbors" | "next" | "nmf" |
      "sgd";
    /** Hyperparameters over the defaults, such as n_factors. */
    params?: Record<string, Schemas["JsonValue"]>;
    /** Its name, of lower-case letters, digits and hyphens; default: that of the algorithm. */
    name?: string | null;
    /** Whether it learns and is tested beside the others, but never answers. */
    shadow?: boolean;
    /** Whether the new model goes live if it is good enough. */
    activate?: boolean;
    /** Whether to search for better params first, judged by held-out pairs. */
    tune?: boolean;
    /** Whether it goes live even if it is worse than the live one or a baseline. */
    force?: boolean;
  };
  /** How much showings of an item lower it. */
  Rotation: {
    /** A number and m, h or d: a showing that is older by this counts half. */
    half_life: string;
    /** What a showing takes off at first, in units of the score. */
    by?: number;
  };
  /** Body of a scenario: the same parameters, `candidates`, and a `filter` of any form. */
  ScenarioBody: {
    /** How many results. */
    n?: number;
    /** How many of the best to leave out. */
    offset?: number;
    /** Items never to show; repeat the parameter for several. */
    exclude?: string[];
    /** Whether items that the user rated may be shown. */
    include_seen?: boolean;
    /**
     * Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
     * setting `repeat`.
     */
    repeat?: "auto" | "never" | "allow" | null;
    /**
     * Leave out only what the user has events of these types with, or has rated (rating). Default: the setting
     * `seen_types`.
     */
    seen_types?: string[];
    /** Show only items that have at least this many ratings now. */
    min_ratings?: number;
    /** Name of a live model; default: the first of `default_models`. */
    model?: string | null;
    /** Experiment whose arm for the user names the model. */
    experiment?: string | null;
    /** Add to each item the ratings that most raise its score. */
    explain?: boolean;
    /**
     * For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user if
     * the model can, else trending items where ratings have times, else popular ones.
     */
    fallback?: "auto" | "popular" | "trending" | "latest" | "none";
    /** Share of places for items with few ratings. */
    explore?: number;
    /** They have fewer ratings than this. */
    explore_below?: number;
    /** How much unlike items come first; 0 keeps the order of the scores. */
    diversity?: number;
    /** Add to each item its title, if it has one. */
    with?: "title" | null;
    /** The only items to rank; default: all. */
    candidates?: string[] | null;
    filter?: Schemas["Filter"] | null;
    /** Whether to leave out items that are not available now. */
    available?: boolean;
    /** Numbers added to the scores of items that pass a filter; they add up. */
    boosts?: Schemas["Boost"][];
    /** Items at fixed places. */
    pins?: Schemas["Pin"][];
    /** A limit for items with the same value of a tag. */
    max_per?: Schemas["MaxPer"] | null;
    rotate?: string | {
      /** A number and m, h or d: a showing that is older by this counts half. */
      half_life: string;
      /** What a showing takes off at first, in units of the score. */
      by?: number;
    } | null;
  };
  /** Body of `POST /neighbors`. */
  SetBody: {
    /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
    wait_for?: string | null;
    items: string[];
    /** How many results. */
    n?: number;
    /** Name of a live model; default: the first of `default_models`. */
    model?: string | null;
    filter?: Schemas["Filter"] | null;
    /** Whether to leave out items that are not available now. */
    available?: boolean;
    /** Empty: begin to read page by page. Else `next` of the page before, with equal parameters. */
    cursor?: string | null;
    /** Add to each item its title, if it has one. */
    with?: "title" | null;
  };
  /** Body of `POST /recommend` for several users. */
  UsersBody: {
    /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
    wait_for?: string | null;
    /** Its body counts where the request names no field itself. */
    scenario?: string | null;
    users: string[];
    /** How many results. */
    n?: number;
    /** How many of the best to leave out. */
    offset?: number;
    /** Items never to show; repeat the parameter for several. */
    exclude?: string[];
    /** Whether items that the user rated may be shown. */
    include_seen?: boolean;
    /**
     * Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
     * setting `repeat`.
     */
    repeat?: "auto" | "never" | "allow" | null;
    /**
     * Leave out only what the user has events of these types with, or has rated (rating). Default: the setting
     * `seen_types`.
     */
    seen_types?: string[];
    /** Show only items that have at least this many ratings now. */
    min_ratings?: number;
    /** Name of a live model; default: the first of `default_models`. */
    model?: string | null;
    /** Experiment whose arm for the user names the model. */
    experiment?: string | null;
    /** Add to each item the ratings that most raise its score. */
    explain?: boolean;
    /**
     * For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user if
     * the model can, else trending items where ratings have times, else popular ones.
     */
    fallback?: "auto" | "popular" | "trending" | "latest" | "none";
    /** Share of places for items with few ratings. */
    explore?: number;
    /** They have fewer ratings than this. */
    explore_below?: number;
    /** How much unlike items come first; 0 keeps the order of the scores. */
    diversity?: number;
    /** Add to each item its title, if it has one. */
    with?: "title" | null;
    /** The only items to rank; default: all. */
    candidates?: string[] | null;
    filter?: Schemas["Filter"] | null;
    /** Whether to leave out items that are not available now. */
    available?: boolean;
    /** Numbers added to the scores of items that pass a filter; they add up. */
    boosts?: Schemas["Boost"][];
    /** Items at fixed places. */
    pins?: Schemas["Pin"][];
    /** A limit for items with the same value of a tag. */
    max_per?: Schemas["MaxPer"] | null;
    rotate?: string | {
      /** A number and m, h or d: a showing that is older by this counts half. */
      half_life: string;
      /** What a showing takes off at first, in units of the score. */
      by?: number;
    } | null;
  };
  /** Body of `POST /admin/webhooks`. */
  WebhookBody: {
    /**
     * Target: http or https, without user and password. Its host has public addresses alone, or ones in the
     * networks of the setting `webhook_networks`.
     */
    url: string;
    /** Ends of jobs to tell, KIND.STATE. Default: all. */
    events?: ("train.succeeded" | "train.failed" | "train.cancelled" | "lists.succeeded" | "lists.failed" |
      "lists.cancelled" | "forget.succeeded" | "forget.failed" | "forget.cancelled" | "undo.succeeded" | "undo.failed" |
      "undo.cancelled")[];
  };
  /**
   * Only items that pass it: one of all, any, not, tag with in, number with min or max. At most 16 inside each
   * other, and 256 values.
   */
  Filter: {
    all?: Record<string, unknown>[];
    any?: Record<string, unknown>[];
    not?: Record<string, unknown>;
    tag?: string;
    in?: string[];
    number?: string;
    min?: number;
    max?: number;
  };
  /**
   * An error, as application/problem+json (RFC 9457).
   *
   * Attributes:
   *     errors: the first ten refused values, if the problem is about values.
   *     errors_left_out: number of further refused values.
   *     reason, fraction: why the service is not ready, and how much of its start is done (0 to 1).
   */
  ProblemDocument: {
    type: string;
    title: string;
    status: number;
    detail: string;
    request_id: string;
    errors?: Schemas["Fault"][];
    errors_left_out?: number;
    reason?: string;
    fraction?: number;
  };
  /** One refused value: its path in the request, and the reason. */
  Fault: { place: string; error: string };
  /**
   * One job as clients see it.
   *
   * Attributes:
   *     kind: `train`, `forget`, `lists` or `undo`.
   *     name, shadow: the name of the model, and whether it becomes a shadow.
   *     params: hyperparameters over the defaults; of `lists`, the body that was sent, with the number of its
   *         users; of `undo`, what is taken back.
   *     state: `activating` while this process does not yet serve the promoted version.
   *     progress: 0 to 1.
   *     phase: what a running job does now, such as `reading`, `epoch 3 of 12` or `compiling 4 of 40`.
   *     metrics: of the last epoch; after the end, of the held-out pairs.
   *     calibration: the values that a training derived from the data; set after the end.
   *     trials: the trainings that a search for parameters has tried; set after the end.
   *     promoted: whether the new version went live; None while undecided.
   *     version: the snapshot that a training wrote.
   *     backend: whether it trains on the host or the device, and why.
   *     reason: why it waits or was not promoted, or a remark about the result.
   *     error: why it failed.
   *     created_ms: Unix milliseconds at which it was submitted.
   *     schedule: the line of the setting `schedules` that has submitted it; None: a request has, or a rule.
   */
  Job: {
    id: string;
    kind: string;
    state: "activating" | "cancelled" | "failed" | "queued" | "running" | "succeeded";
    progress: number;
    phase: string | null;
    metrics: Record<string, number>;
    algorithm: string | null;
    name: string | null;
    shadow: boolean;
    params: Record<string, unknown>;
    calibration: Schemas["StoredCalibration"] | null;
    trials: Record<string, unknown>[];
    promoted: boolean | null;
    version: string | null;
    backend: string | null;
    reason: string | null;
    error: string | null;
    created_ms: number;
    schedule: string | null;
  };
  /**
   * The values that a training derived from its data; docs/models.md explains them.
   *
   * Attributes:
   *     middle: ratings below it are dislikes; null: no rating is a dislike.
   *     scale, event_scale: lowest and highest value; others are clipped. null: no upper bound.
   *     n_factors: F, if held-out pairs chose it; 0 if it was given.
   *     chosen: what held-out pairs of the training ratings decided, and why: a sentence each.
   */
  StoredCalibration: {
    values: "counts" | "ratings";
    middle: number | null;
    scale: [number, number | null];
    is_damped: boolean;
    typical: number;
    alpha: number;
    regularization: number;
    density: number;
    unit: number;
    origin: number;
    prior: number;
    as_of_s?: number;
    usual_weight?: number;
    event_weight?: number;
    event_scale?: [number, number | null];
    event_damped?: boolean;
    event_typical?: number;
    n_factors?: number;
    chosen?: string[];
    trend?: Schemas["Trend"] | null;
    repeat?: Schemas["Repeat"] | null;
  };
  /**
   * How much of what is popular now belongs into the scores of a model, as its training has measured.
   *
   * Attributes:
   *     weight: added to the score of the item with the most pairs, an older pair counting less; others get
   *         their share of it. 0: nothing is added.
   *     half_life_days: age at which a pair counts half; the best one, also if the weight is 0.
   *     n_pairs: newest pairs that were held out for this, of users with older ones.
   *     gain, interval: what it added to NDCG@20 of the lists of their users, and the bounds of 80 %. A list
   *         counts with the weight that is best for others.
   *     remark: why nothing is added; empty if something is.
   */
  Trend: {
    weight?: number;
    half_life_days?: number;
    n_pairs?: number;
    gain?: number;
    interval?: [number, number];
    remark?: string;
  };
  /**
   * Whether what users had comes back in their lists, and how much of their own past is in scores.
   *
   * Attributes:
   *     weight: of log(1 + strength) of a pair in its score; 0: lists leave out what users had.
   *     half_life_days: age, up to the user's newest pair, at which this counts half; 0: age does not matter.
   *     share: of the newest pairs that users had before.
   *     n_pairs: newest pairs that were held out for this, of users with older ones.
   *     gain, interval: what the weight added to NDCG@10 beside lists without what users had, and the bounds
   *         of 95 %. A list counts with the weight that is best for others.
   *     remark: why nothing comes back; empty if it does.
   */
  Repeat: {
    weight?: number;
    half_life_days?: number;
    share?: number;
    n_pairs?: number;
    gain?: number;
    interval?: [number, number];
    remark?: string;
  };
  /** All jobs in Redis. */
  JobList: { jobs: Schemas["Job"][] };
  /** All snapshots on disk. */
  ModelList: { models: Schemas["ModelInfo"][] };
  /**
   * One snapshot.
   *
   * Attributes:
   *     version: its name.
   *     algorithm: how it was trained.
   *     name: the name under which it can be live.
   *     shadow: whether it learns and is tested in this process without answering; `live` is then false.
   *     revision: how many times a user was forgotten in it.
   *     live: whether it answers in this process.
   *     metrics: on the pairs held out of its training.
   *     watermark: the last entry it was trained on.
   *     parameters: its hyperparameters; null for those that training derived from the data.
   *     calibration: the values that training derived from the data.
   *     rating_scale: lowest and highest rating. Estimates stay within; for a model that makes only lists it
   *         is the scale of `calibration`. Null: no upper bound.
   *     error: why it cannot be used, or null.
   */
  ModelInfo: {
    version: string;
    algorithm: string;
    live: boolean;
    metrics?: Record<string, number>;
    watermark?: string | null;
    parameters?: Record<string, unknown>;
    calibration?: Schemas["StoredCalibration"] | null;
    rating_scale?: [number, number | null] | null;
    revision?: number;
    error?: string | null;
    name?: string;
    shadow?: boolean;
  };
  /**
   * How well a model foretold ratings and events before it learned them.
   *
   * Attributes:
   *     measure: `rmse` of estimated ratings, or `hit_rate`: the share of items among the first ten of a
   *         hundred.
   *     baseline: what `baseline` numbers are: the mean of the user's ratings, or the most popular items.
   *     since: the last entry before the first test of this process.
   *     window, decayed, all: the last results; all with the weight halved every thousand; all alike.
   *     untested: sampled ratings and events that were no test: of users or items that the model does not
   *         know, of pairs that it has learned before, and those that say nothing of what it foretells
   *         (dislikes, views, deletions).
   *     curve: from the oldest point to the newest.
   */
  QualityReport: {
    model: string;
    model_version: string;
    algorithm: string;
    measure: "hit_rate" | "rmse";
    baseline: string;
    since: string;
    window: Schemas["QualityResult"];
    decayed: Schemas["QualityResult"];
    all: Schemas["QualityResult"];
    untested: Record<string, number>;
    curve: Schemas["QualityPoint"][];
    as_of: string;
  };
  /** Means over `n` results: of the model, and of the baseline in the same tests. Null without results. */
  QualityResult: { n: number; value: number | null; baseline: number | null };
  /**
   * A point of the curve: means over its own results alone.
   *
   * Attributes:
   *     as_of: the last entry whose ratings were tested.
   *     model_version: the version that was tested last.
   */
  QualityPoint: {
    as_of: string;
    model_version: string;
    n: number;
    value: number;
    baseline: number;
  };
  /** The model that was live under `name` has ended; `cancelled` has the ids of its trainings that will stop. */
  EndedModel: { name: string; cancelled: string[] };
  /** The answer to any other write. A read with `wait_for` = `stream_id` sees it. */
  Written: { stream_id: string };
  /** No answer after `stream_id` contains the user; `job` removes the data on disk; `note` says what remains. */
  Forgotten: { stream_id: string; job: string; note: string };
  /**
   * A page of the audit log.
   *
   * Attributes:
   *     entries: newest first.
   *     next: cursor of the page of older ones; null: there are none.
   */
  AuditPage: { entries: Schemas["AuditEntry"][]; next: string | null };
  /**
   * One action.
   *
   * Attributes:
   *     at: when it ended, of ISO 8601 in UTC.
   *     action: id of the operation of the API, `sign_in`, `sign_out`, or the command.
   *     outcome: done; refused (no key, a wrong one, one without the right, or too many requests); or failed.
   *     via: api, console or cli.
   *     status: of the HTTP answer; null for a command.
   *     object: what the action was on, such as `job 7008c696f6c7`; null: the service, or a user, whom no
   *         entry names.
   *     key: id of the key: that of a made one, or the name of its setting; null: none, or a wrong one.
   *     account: of the system, that has run a command; else null.
   *     address: of the client; null for a command.
   *     request_id: as in the answer and in the other log lines; null for a command.
   *     data_set: on which it was.
   *     left_out: refusals since the entry before that are in no entry, because there were too many.
   */
  AuditEntry: {
    at: string;
    action: string;
    outcome: "done" | "failed" | "refused";
    via: "api" | "cli" | "console";
    status?: number | null;
    object?: string | null;
    key?: string | null;
    account?: string | null;
    address?: string | null;
    request_id?: string | null;
    data_set?: string;
    left_out?: number;
  };
  /** The answer of a running process. */
  Alive: { status: string };
  /**
   * The answer of a ready service.
   *
   * Attributes:
   *     as_of: the last entry that it has learned.
   *     left_out: versions that should be live and cannot be loaded; `GET /admin/models` says why.
   */
  Ready: { status: string; as_of: string; left_out?: string[] };
  ItemPatch: {
    tags?: Record<string, string[] | null> | null;
    numbers?: Record<string, number | null> | null;
    /** Whether lists show it; default true. */
    available?: boolean | null;
    /** Lists do not show the item before this time: Unix seconds, or a date. */
    published?: number | null | string;
    /** Lists do not show the item from this time on: Unix seconds, or a date. */
    until?: number | null | string;
    /** As many numbers as those of the other items. Places an item that nobody has rated. */
    embedding?: number[] | null;
    /** What people call the item. */
    title?: string | null;
    /** Address of a page about the item. */
    url?: string | null;
    /** Address of a picture of the item. */
    image?: string | null;
  };
  PostedItem: {
    item: string;
    tags?: Record<string, string[] | null> | null;
    numbers?: Record<string, number | null> | null;
    /** Whether lists show it; default true. */
    available?: boolean | null;
    /** Lists do not show the item before this time: Unix seconds, or a date. */
    published?: number | null | string;
    /** Lists do not show the item from this time on: Unix seconds, or a date. */
    until?: number | null | string;
    /** As many numbers as those of the other items. Places an item that nobody has rated. */
    embedding?: number[] | null;
    /** What people call the item. */
    title?: string | null;
    /** Address of a page about the item. */
    url?: string | null;
    /** Address of a picture of the item. */
    image?: string | null;
  };
  PatchedItem: {
    item: string;
    tags?: Record<string, string[] | null> | null;
    numbers?: Record<string, number | null> | null;
    /** Whether lists show it; default true. */
    available?: boolean | null;
    /** Lists do not show the item before this time: Unix seconds, or a date. */
    published?: number | null | string;
    /** Lists do not show the item from this time on: Unix seconds, or a date. */
    until?: number | null | string;
    /** As many numbers as those of the other items. Places an item that nobody has rated. */
    embedding?: number[] | null;
    /** What people call the item. */
    title?: string | null;
    /** Address of a page about the item. */
    url?: string | null;
    /** Address of a picture of the item. */
    image?: string | null;
  };
  /**
   * The answer to `POST /ratings` and `POST /events`; `stream_id` is null if nothing was accepted.
   *
   * Attributes:
   *     skipped: how many of the accepted elements do not count, because their source had come further before;
   *         only with `X-Source`. Null: they are durable, but the service has not learned them yet, because
   *         others wait.
   */
  Accepted: {
    accepted: number;
    rejected: Schemas["Rejection"][];
    stream_id: string | null;
    took_ms: number;
    skipped?: number | null;
  };
  /**
   * One refused element of a batch.
   *
   * Attributes:
   *     index: its position among the elements, from 0.
   *     line: its line from 1, where each line is an element.
   */
  Rejection: { index: number; error: string; line?: number };
  /**
   * Items in no meaningful order, or with `search` in that of their titles.
   *
   * `next` is the cursor of the next page, null after the last.
   */
  ItemList: {
    items: Schemas["ListedItem"][];
    next: string | null;
    as_of: string;
  };
  /** One item of a list; see `ItemDetails`. */
  ListedItem: {
    item: string;
    tags: Record<string, string[]>;
    numbers: Record<string, number>;
    available: boolean;
    published: number | null;
    until: number | null;
    title: string | null;
    url: string | null;
    image: string | null;
    hidden: boolean;
    n_ratings: number;
  };
  /**
   * One item.
   *
   * Attributes:
   *     tags: values by name.
   *     numbers: numbers by name.
   *     available: whether lists show it.
   *     published, until: Unix seconds from which, and before which, lists show it; null: no bound.
   *     embedding: the numbers as float32, or null.
   *     title, url, image: what to show to people, or null.
   *     hidden: whether an operator has hidden the item.
   *     n_ratings: its present ratings.
   */
  ItemDetails: {
    item: string;
    tags: Record<string, string[]>;
    numbers: Record<string, number>;
    available: boolean;
    published: number | null;
    until: number | null;
    title: string | null;
    url: string | null;
    image: string | null;
    embedding: number[] | null;
    hidden: boolean;
    n_ratings: number;
    as_of: string;
  };
  /**
   * A new key.
   *
   * Attributes:
   *     key: the key itself, which is in no other answer.
   *     note: what its making has changed for others; null: nothing.
   */
  MadeKey: {
    id: string;
    name: string;
    scope: "admin" | "read" | "read-write" | "write";
    data_sets: string[] | null;
    created_ms: number;
    ends_with: string;
    expires?: string | null;
    last_used?: string | null;
    key: string;
    note: string | null;
  };
  /** All keys that were made and not revoked, the oldest first. */
  KeyList: { keys: Schemas["ListedKey"][] };
  /**
   * A key as it is listed.
   *
   * Attributes:
   *     id: by which it is revoked.
   *     name: given by its maker; several keys may have the same.
   *     scope: what it may do.
   *     data_sets: the only data sets that it opens; None: all of them.
   *     created_ms: Unix milliseconds at which it was made.
   *     ends_with: its last characters.
   *     expires: when it ends by itself, of ISO 8601 in UTC; None: never.
   *     last_used: when it was used last, give or take an hour; None: never since it was made, or restored.
   */
  ListedKey: {
    id: string;
    name: string;
    scope: "admin" | "read" | "read-write" | "write";
    data_sets: string[] | null;
    created_ms: number;
    ends_with: string;
    expires?: string | null;
    last_used?: string | null;
  };
  /** A page of the ratings of an item; `n_ratings` is the number of all ratings of the item. */
  RatingsOfItem: {
    item: string;
    n_ratings: number;
    ratings: Schemas["RatingOfItem"][];
    as_of: string;
  };
  /** One stored rating of an item; `timestamp` in Unix seconds. */
  RatingOfItem: { user: string; rating: number; timestamp: number };
  /**
   * Sizes of the service.
   *
   * Attributes:
   *     users, items: ids that are known, without forgotten users.
   *     ratings: present ratings.
   *     events: events counted since the log begins, without those of users who were removed from it.
   *     hidden: hidden items.
   *     deleted: deleted items.
   *     lag_s: seconds between the newest entry of the stream and the newest one in all answers.
   *     models: the live ones, the first of which answers requests that name none.
   *     quotas: how much the data set may hold and use, and how much it does.
   */
  Stats: {
    users: number;
    items: number;
    ratings: number;
    events: number;
    hidden: number;
    deleted: number;
    log: Schemas["LogStats"];
    stream: Schemas["StreamStats"];
    models: Schemas["ModelStats"][];
    as_of: string;
    lag_s: number;
    uptime_s: number;
    version: string;
    quotas: Schemas["Quota"][];
  };
  /** The rating log: segments, rows (ratings, events and other entries), bytes on disk, and its last stream id. */
  LogStats: {
    segments: number;
    rows: number;
    bytes: number;
    last_id: string;
  };
  /** The stream in Redis: entries, bytes of memory, and the last stream id that was given. */
  StreamStats: { entries: number; bytes: number; last_id: string };
  /**
   * A live model.
   *
   * Attributes:
   *     age_s: seconds since its training.
   *     ratings_since: ratings and other rows of the log after its training; it has learned them online.
   *     refits_waiting: refits of trained items and their users that are due or under way.
   *     revision: how many times a user was forgotten in the snapshot that it was loaded from; `GET
   *         /admin/models` has the newest one, which takes its place within seconds.
   */
  ModelStats: {
    model: string;
    model_version: string;
    age_s: number;
    ratings_since: number;
    refits_waiting: number;
    revision: number;
  };
  /**
   * One quota of a data set.
   *
   * Attributes:
   *     name: of its setting, after `quota_`.
   *     held: how much there is, or was used within 24 hours.
   *     quota: how much there may be, in the same unit.
   */
  Quota: { name: string; held: number; quota: number };
  /**
   * A page of all ratings, in no meaningful order; `next` is the cursor of the next page, null after the last.
   *
   * A page may have fewer ratings than wanted, or none, although there are more.
   */
  RatingPage: {
    ratings: Schemas["ListedRating"][];
    next: string | null;
    as_of: string;
  };
  /** One rating of all; `timestamp` in Unix seconds. */
  ListedRating: {
    user: string;
    item: string;
    rating: number;
    timestamp: number;
  };
  /**
   * Items most similar to `item`.
   *
   * Attributes:
   *     neighbors: `score` is the share of equal signature bits, the partial correlation (`ease`), the weight
   *         of what is liked together (`neighbors`), or the cosine of the factors.
   *     eligible: as in `Recommendation`.
   */
  ItemNeighbors: {
    item: string;
    neighbors: Schemas["ScoredItem"][];
    model: string;
    model_version: string;
    as_of: string;
    eligible?: number;
    next?: string | null;
  };
  /**
   * One line of a list; lists are ordered by `score`, except for items with a source.
   *
   * Attributes:
   *     score: with the boost; None for a pin, which is not ranked.
   *     estimate: the estimated rating, as in `GET /estimate`; only of models that estimate ratings.
   *     boost: the part of the score that comes from boosts and showings; only if the query has `boosts` or
   *         `rotate`.
   *     trend: the part of the score that comes from what is popular now; only with `explain`, if the model
   *         adds any.
   *     again: the part that comes from how often and when the user had the item; only with `explain`, if the
   *         model adds any.
   *     title: of the item; only with `with=title`, and if it has one.
   *     source: why the item is at its place, if not for its score alone: to be explored, or as a pin.
   */
  ScoredItem: {
    item: string;
    score: number | null;
    estimate?: number;
    reasons?: Schemas["Reason"][];
    boost?: number;
    trend?: number;
    again?: number;
    source?: "explore" | "pin";
    title?: string;
  };
  /** A rated item and its contribution to the explained score. */
  Reason: { item: string; contribution: number };
  /**
   * The users who would like `item` most, of those with ratings who have not seen it.
   *
   * Attributes:
   *     users: `score` is the one before it becomes an estimate: it compares users for one item.
   *     warnings: why there are none, if the model knows nothing of the item.
   *     eligible: users who pass the filter; only if there is one.
   */
  UsersOfItem: {
    item: string;
    users: Schemas["ScoredUser"][];
    model: string;
    model_version: string;
    as_of: string;
    warnings: string[];
    eligible?: number;
  };
  /** One line of a list of users. */
  ScoredUser: { user: string; score: number };
  /**
   * Items most similar to those of a set, which are left out.
   *
   * Attributes:
   *     neighbors: `score` is the mean of the scores in `ItemNeighbors` over the items of the set that have
   *         any.
   *     warnings: the unknown items of the set.
   *     eligible: as in `Recommendation`.
   */
  NeighborsOfSet: {
    neighbors: Schemas["ScoredItem"][];
    model: string;
    model_version: string;
    as_of: string;
    warnings: string[];
    eligible?: number;
    next?: string | null;
  };
  /** Users most similar to `user`; `score` is the cosine of the factors, for `ease` of likes and dislikes. */
  UserNeighbors: {
    user: string;
    neighbors: Schemas["ScoredUser"][];
    model: string;
    model_version: string;
    as_of: string;
    next?: string | null;
  };
  /** Users in no meaningful order; `next` is the cursor of the next page, null after the last. */
  UserList: {
    users: Schemas["ListedUser"][];
    next: string | null;
    as_of: string;
  };
  /** One user of a list; see `UserDetails`. */
  ListedUser: {
    user: string;
    tags: Record<string, string[]>;
    numbers: Record<string, number>;
    n_ratings: number;
  };
  /**
   * `estimate` is a rating within the scale of the training, or a probability for an implicit model.
   *
   * Attributes:
   *     personalized: whether the user has rated an item that the model was trained on.
   *     warnings: the ids without ratings, which count as average.
   */
  RatingEstimate: {
    user: string;
    item: string;
    estimate: number;
    personalized: boolean;
    model: string;
    model_version: string;
    as_of: string;
    warnings: string[];
  };
  /** A page of the ratings of a user; `n_ratings` is the number of all ratings of the user. */
  RatingsOfUser: {
    user: string;
    n_ratings: number;
    ratings: Schemas["Rating"][];
    as_of: string;
  };
  /** One stored rating; `timestamp` in Unix seconds. */
  Rating: { item: string; rating: number; timestamp: number };
  /**
   * A page of the items that a user has events of, newest first; `n_items` is the number of all of these
   * items.
   */
  EventsOfUser: {
    user: string;
    n_items: number;
    events: Schemas["EventsOfItem"][];
    as_of: string;
  };
  /**
   * What the events of a user with one item add up to.
   *
   * Attributes:
   *     strength: the sum of their weights, each times its value; 0: the item was only seen. Below 0: a
   *         dislike.
   *     timestamp: Unix seconds of the newest of them that say more than that the item was seen; null without
   *         any.
   */
  EventsOfItem: { item: string; strength: number; timestamp: number | null };
  PostedRating: {
    user: string;
    item: string;
    rating: number;
    /**
     * Unix seconds, or a date or datetime of ISO 8601, in UTC if it has no offset; default: now. Never decides
     * order.
     */
    timestamp?: number | string;
  };
  PostedEvent: {
    user: string;
    item: string;
    /** One of the setting `events`. */
    type: string;
    /** Multiplies the weight of the type. */
    value?: number;
    /**
     * Unix seconds, or a date or datetime of ISO 8601, in UTC if it has no offset; default: now. Never decides
     * order.
     */
    timestamp?: number | string;
    /** Of a user's events with the same one only the first counts. */
    event_id?: string;
    /** Of the answer that led to the event, as the same user got it in an experiment. */
    recommendation_id?: string;
  };
  /**
   * The answer to `DELETE /users/{user}/events/{event_id}`.
   *
   * Attributes:
   *     stream_id: a read with `wait_for` of it sees the change.
   *     removed: false if the event was not among the last of the user with an id; null if that is not known
   *         in time.
   */
  RetractedEvent: { stream_id: string; removed: boolean | null };
  /**
   * A list for one user; `user` is None for an anonymous one.
   *
   * Attributes:
   *     experiment, arm, recommendation_id: only in an experiment whose arm has answered; events bring the id
   *         back.
   *     eligible: items that pass the filter and may be shown; only if there is a filter.
   *     next: the cursor of the next page, null after the last one; only if the query has a cursor.
   */
  Recommendation: {
    user: string | null;
    items: Schemas["ScoredItem"][];
    personalized: boolean;
    model: string | null;
    model_version: string | null;
    as_of: string;
    warnings: string[];
    fallback?: "attributes" | "latest" | "none" | "popular" | "trending";
    eligible?: number;
    next?: string | null;
    experiment?: string;
    arm?: string;
    recommendation_id?: string;
    took_ms?: number;
    request_id?: string;
  };
  /** Popular or latest items; `eligible` as in `Recommendation`. */
  PopularItems: {
    items: Schemas["ScoredItem"][];
    as_of: string;
    warnings: string[];
    eligible?: number;
    next?: string | null;
  };
  /** All scenarios in order of names. */
  ScenarioList: { scenarios: Schemas["ListedDocument"][]; as_of: string };
  /** One document of a list; see `DocumentDetails`. */
  ListedDocument: { name: string; stream_id: string };
  /**
   * One document.
   *
   * Attributes:
   *     body: JSON as the client has sent it, without spaces.
   *     stream_id: the position of the entry that has put it: two answers with the same one have the same
   *         body.
   */
  DocumentDetails: {
    name: string;
    body: unknown;
    stream_id: string;
    as_of: string;
  };
  /** A page of sources, and the number of all. */
  SourceList: {
    sources: Schemas["ListedSource"][];
    n_sources: number;
    as_of: string;
  };
  /**
   * How far a source has come.
   *
   * Attributes:
   *     source: its name.
   *     key: the key whose source it is: the name of a setting, or the id of a made key. Null: none was
   *         needed, and the mark holds for every key.
   *     offset: the highest one that has counted.
   *     stream_id: the entry that had it.
   */
  ListedSource: {
    source: string;
    key: string | null;
    offset: number;
    stream_id: string;
  };
  /** The answer to `DELETE /admin/sources/{source}`; `removed` is empty if there was none of that name. */
  RemovedSource: { stream_id: string; removed: Schemas["ListedSource"][] };
  UserAttributes: {
    tags?: Record<string, string[] | null> | null;
    numbers?: Record<string, number | null> | null;
  };
  PostedUser: {
    user: string;
    tags?: Record<string, string[] | null> | null;
    numbers?: Record<string, number | null> | null;
  };
  /**
   * One user.
   *
   * Attributes:
   *     tags: values by name.
   *     numbers: numbers by name.
   *     n_ratings: present ratings of the user.
   */
  UserDetails: {
    user: string;
    tags: Record<string, string[]>;
    numbers: Record<string, number>;
    n_ratings: number;
    as_of: string;
  };
  /** The ids of all experiments, each with the position of the entry that has put it. */
  ExperimentList: { experiments: Schemas["ListedDocument"][]; as_of: string };
  /**
   * An experiment, what its arms have led to, and how they compare with the first one.
   *
   * Attributes:
   *     filter: of the users who take part; null: all.
   */
  ExperimentReport: {
    experiment: string;
    salt: string;
    filter: unknown;
    stream_id: string;
    confidence: number;
    arms: Schemas["ArmReport"][];
    differences: Schemas["Difference"][];
    as_of: string;
  };
  /**
   * One arm: its share of users, lists that this process answered, users with events, and rates by type of
   * event.
   */
  ArmReport: {
    model: string;
    share: number;
    answered: number;
    users: number;
    types: Record<string, Schemas["Rate"]>;
  };
  /**
   * Events of a type in an arm.
   *
   * Attributes:
   *     events: their number.
   *     users: users with at least one of them.
   *     rate: `users` divided by all users with events that were attributed to the arm; null without any.
   *     low, high: the interval of the rate (Wilson).
   */
  Rate: {
    events: number;
    users: number;
    rate: number | null;
    low: number;
    high: number;
  };
  /**
   * The rate of a type in an arm minus that in the first arm, and its interval (Newcombe's, of Wilson's).
   *
   * An interval without 0 speaks for a difference.
   */
  Difference: {
    model: string;
    type: string;
    difference: number;
    low: number;
    high: number;
  };
  /** All files of lists, newest first. */
  ListFiles: { exports: Schemas["ListFile"][] };
  /** One file: the job that has made it, its bytes, and when it was written, in Unix milliseconds. */
  ListFile: { job: string; bytes: number; created_ms: number };
  /** All lines of the setting `schedules`, in its order. */
  ScheduleList: { schedules: Schemas["ListedSchedule"][] };
  /**
   * One line of the setting `schedules`, and what became of it.
   *
   * Attributes:
   *     schedule: the line.
   *     next_ms: Unix milliseconds of the next time.
   *     last_ms: the last time that was due; null if none was since the line is known.
   *     job: the id of the job of that time; null if there is none.
   *     error: why there is none; null if there is one. A job has the reason why it failed itself.
   */
  ListedSchedule: {
    schedule: string;
    next_ms: number;
    last_ms: number | null;
    job: string | null;
    error: string | null;
  };
  /** A new webhook; `secret` is in no other answer. */
  MadeWebhook: {
    id: string;
    url: string;
    events: ("forget.cancelled" | "forget.failed" | "forget.succeeded" | "lists.cancelled" | "lists.failed" |
      "lists.succeeded" | "train.cancelled" | "train.failed" | "train.succeeded" | "undo.cancelled" | "undo.failed" |
      "undo.succeeded")[];
    created_ms: number;
    secret: string;
  };
  /** All webhooks, the oldest first. */
  WebhookList: { webhooks: Schemas["ListedWebhook"][] };
  /**
   * A webhook and what became of its deliveries.
   *
   * Attributes:
   *     waiting: deliveries that have not ended.
   *     next_ms: Unix milliseconds of the next attempt; null if none waits.
   *     delivered, given_up: deliveries that have ended.
   *     last: the last attempt; null before it.
   */
  ListedWebhook: {
    id: string;
    url: string;
    events: ("forget.cancelled" | "forget.failed" | "forget.succeeded" | "lists.cancelled" | "lists.failed" |
      "lists.succeeded" | "train.cancelled" | "train.failed" | "train.succeeded" | "undo.cancelled" | "undo.failed" |
      "undo.succeeded")[];
    created_ms: number;
    waiting: number;
    next_ms: number | null;
    delivered: number;
    given_up: number;
    last: Schemas["Attempt"] | null;
  };
  /**
   * An attempt that has ended.
   *
   * Attributes:
   *     job: whose end was told.
   *     attempt: its number, from 1.
   *     outcome: `delivered`, `failed` (the next attempt follows), or `given-up`.
   *     error: why it was not delivered.
   *     ended_ms: Unix milliseconds.
   */
  Attempt: {
    job: string;
    attempt: number;
    outcome: "delivered" | "failed" | "given-up";
    error: string | null;
    ended_ms: number;
  };
  /**
   * A webhook without its secret.
   *
   * Attributes:
   *     id: by which it is removed.
   *     url: the target.
   *     events: the ends of jobs that it tells.
   *     created_ms: Unix milliseconds at which it was made.
   */
  Webhook: {
    id: string;
    url: string;
    events: ("forget.cancelled" | "forget.failed" | "forget.succeeded" | "lists.cancelled" | "lists.failed" |
      "lists.succeeded" | "train.cancelled" | "train.failed" | "train.succeeded" | "undo.cancelled" | "undo.failed" |
      "undo.succeeded")[];
    created_ms: number;
  };
}

export interface components {
  schemas: Schemas;
}

export interface paths {
  "/ratings": {
    /** Post one rating, or an array whose elements are checked one by one. A rating replaces the earlier one. */
    post: {
      parameters: {
        header?: {
          /**
           * Where a batch comes from that may be delivered again; with X-Offset. Each key has its own sources. A queue
           * that is made again needs another name, such as one with its id.
           */
          "X-Source"?: string;
          /**
           * Of its last message; a batch up to an earlier one is skipped, and one that is more than 100,000,000 above
           * it is refused.
           */
          "X-Offset"?: number;
        };
      };
      requestBody: { content: { "application/json": Schemas["PostedRating"] | Schemas["PostedRating"][] } };
      responses: { 202: { content: { "application/json": Schemas["Accepted"] } } };
    };
  };
  "/events": {
    /** Post one event, or an array whose elements are checked one by one. Events of a user and an item add up. */
    post: {
      parameters: {
        header?: {
          /**
           * Where a batch comes from that may be delivered again; with X-Offset. Each key has its own sources. A queue
           * that is made again needs another name, such as one with its id.
           */
          "X-Source"?: string;
          /**
           * Of its last message; a batch up to an earlier one is skipped, and one that is more than 100,000,000 above
           * it is refused.
           */
          "X-Offset"?: number;
        };
      };
      requestBody: { content: { "application/json": Schemas["PostedEvent"] | Schemas["PostedEvent"][] } };
      responses: { 202: { content: { "application/json": Schemas["Accepted"] } } };
    };
  };
  "/ratings/{user}/{item}": {
    /** Delete one rating. Deleting a rating that does not exist is accepted too. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
  };
  "/users/{user}/events/{event_id}": {
    /** Take one of the last 64 events with an `event_id` of a user back, as if it had not come. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
          /** The `event_id` that the event was posted with, percent-encoded. */
          event_id: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["RetractedEvent"] } } };
    };
  };
  "/items": {
    /** Put one item, or an array whose elements are checked one by one. It replaces all attributes of the item. */
    post: {
      requestBody: { content: { "application/json": Schemas["PostedItem"] | Schemas["PostedItem"][] } };
      responses: { 202: { content: { "application/json": Schemas["Accepted"] } } };
    };
    /**
     * Change attributes of one item, or of an array of items, and leave the others: JSON merge patches.
     *
     * The elements are checked one by one; those of deleted items are rejected.
     */
    patch: {
      requestBody: { content: { "application/json": Schemas["PatchedItem"] | Schemas["PatchedItem"][] } };
      responses: { 202: { content: { "application/json": Schemas["Accepted"] } } };
    };
    /** A page of all items that are not deleted, available or not, in an order that stays when items come and go. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** `next` of the page before; empty or by default: the first page. */
          cursor?: string;
          /** List the first items by title whose title begins so, in any capitals. There is no next page. */
          search?: string;
          /** `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`. */
          filter?: Record<string, string>;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["ItemList"] } } };
    };
  };
  "/items/{item}": {
    /** Change attributes of an item and leave the others: a JSON merge patch, in which null removes. */
    patch: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
      };
      requestBody: { content: { "application/json": Schemas["ItemPatch"] } };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** Never show an item again, and do not train on its ratings, until it is put again. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** The attributes of an item, and the number of its ratings. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["ItemDetails"] } } };
    };
  };
  "/recommend/{user}": {
    /** The best items for one user. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** Its body counts where the request names no field itself. */
          scenario?: string;
          /** How many results. */
          n?: number;
          /** How many of the best to leave out. */
          offset?: number;
          /** Items never to show; repeat the parameter for several. */
          exclude?: string[];
          /** Whether items that the user rated may be shown. */
          include_seen?: boolean;
          /**
           * Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
           * setting `repeat`.
           */
          repeat?: "auto" | "never" | "allow";
          /**
           * Leave out only what the user has events of these types with, or has rated (rating). Default: the setting
           * `seen_types`.
           */
          seen_types?: string[];
          /** Show only items that have at least this many ratings now. */
          min_ratings?: number;
          /** Name of a live model; default: the first of `default_models`. */
          model?: string;
          /** Experiment whose arm for the user names the model. */
          experiment?: string;
          /** Add to each item the ratings that most raise its score. */
          explain?: boolean;
          /**
           * For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user if
           * the model can, else trending items where ratings have times, else popular ones.
           */
          fallback?: "auto" | "popular" | "trending" | "latest" | "none";
          /** Share of places for items with few ratings. */
          explore?: number;
          /** They have fewer ratings than this. */
          explore_below?: number;
          /** How much unlike items come first; 0 keeps the order of the scores. */
          diversity?: number;
          /** Add to each item its title, if it has one. */
          with?: "title";
          /** Whether to leave out items that are not available now. */
          available?: boolean;
          /** Empty: begin to read page by page. Else `next` of the page before, with equal parameters. */
          cursor?: string;
          /** Show again what was only shown, lowered for each showing by 1, half after this. */
          rotate?: string;
          /** `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`. */
          filter?: Record<string, string>;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["Recommendation"] } } };
    };
    /**
     * The best items for one user, with long lists of candidates and exclusions, or as if the user had rated
     * more.
     */
    post: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
      };
      requestBody: { content: { "application/json": Schemas["RecommendBody"] } };
      responses: { 200: { content: { "application/json": Schemas["Recommendation"] } } };
    };
  };
  "/recommend": {
    /**
     * The best items for each of several users, or for an anonymous user whose ratings and events are in the
     * body.
     */
    post: {
      requestBody: { content: { "application/json": Schemas["UsersBody"] | Schemas["AnonymousBody"] } };
      responses: { 200: { content: { "application/json": Schemas["Recommendation"][] | Schemas["Recommendation"] } } };
    };
  };
  "/popular": {
    /** The most popular items, the same for all users. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** How many of the best to leave out. */
          offset?: number;
          /** Show only items that have at least this many ratings now. */
          min_ratings?: number;
          /** Empty: begin to read page by page. Else `next` of the page before, with equal parameters. */
          cursor?: string;
          /** Whether to leave out items that are not available now. */
          available?: boolean;
          /** One of the setting `half_lives`: what is one half-life older counts half. */
          half_life?: string;
          /** Add to each item its title, if it has one. */
          with?: "title";
          /** `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`. */
          filter?: Record<string, string>;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["PopularItems"] } } };
    };
  };
  "/latest": {
    /** The latest items, by their attribute `published` or else by the first entry that named them. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** How many of the best to leave out. */
          offset?: number;
          /** Show only items that have at least this many ratings now. */
          min_ratings?: number;
          /** Empty: begin to read page by page. Else `next` of the page before, with equal parameters. */
          cursor?: string;
          /** Whether to leave out items that are not available now. */
          available?: boolean;
          /** Add to each item its title, if it has one. */
          with?: "title";
          /** `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`. */
          filter?: Record<string, string>;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["PopularItems"] } } };
    };
  };
  "/items/{item}/neighbors": {
    /** The items most similar to one item. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** Name of a live model; default: the first of `default_models`. */
          model?: string;
          /** Empty: begin to read page by page. Else `next` of the page before, with equal parameters. */
          cursor?: string;
          /** Whether to leave out items that are not available now. */
          available?: boolean;
          /** Add to each item its title, if it has one. */
          with?: "title";
          /** `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`. */
          filter?: Record<string, string>;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["ItemNeighbors"] } } };
    };
  };
  "/items/{item}/users": {
    /** The users who would like an item most, of those with ratings who have not seen it and who pass a filter. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** Name of a live model; default: the first of `default_models`. */
          model?: string;
          /** `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`. */
          filter?: Record<string, string>;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["UsersOfItem"] } } };
    };
  };
  "/neighbors": {
    /** The items most similar to several items together. */
    post: {
      requestBody: { content: { "application/json": Schemas["SetBody"] } };
      responses: { 200: { content: { "application/json": Schemas["NeighborsOfSet"] } } };
    };
  };
  "/users/{user}/neighbors": {
    /** The users most similar to one user. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** Name of a live model; default: the first of `default_models`. */
          model?: string;
          /** Empty: begin to read page by page. Else `next` of the page before, with equal parameters. */
          cursor?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["UserNeighbors"] } } };
    };
  };
  "/users": {
    /**
     * A page of all users who are not forgotten, or of those who pass a filter.
     *
     * The order stays when users come and go.
     */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** `next` of the page before; empty or by default: the first page. */
          cursor?: string;
          /** `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`. */
          filter?: Record<string, string>;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["UserList"] } } };
    };
    /**
     * Put the attributes of one user, or of an array of users, who are checked one by one. They replace all
     * before.
     */
    post: {
      requestBody: { content: { "application/json": Schemas["PostedUser"] | Schemas["PostedUser"][] } };
      responses: { 202: { content: { "application/json": Schemas["Accepted"] } } };
    };
  };
  "/estimate/{user}/{item}": {
    /** How the user would rate the item. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** Name of a live model; default: the first of `default_models`. */
          model?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["RatingEstimate"] } } };
    };
  };
  "/users/{user}/ratings": {
    /** A page of the ratings of one user, newest first; `n_ratings` is the number of all. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** How many of the newest to leave out. */
          offset?: number;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["RatingsOfUser"] } } };
    };
  };
  "/users/{user}/events": {
    /** What the events of one user add up to, item by item, newest first; `n_items` is the number of all items. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** How many of the newest to leave out. */
          offset?: number;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["EventsOfUser"] } } };
    };
  };
  "/items/{item}/ratings": {
    /** A page of the ratings of one item, newest first; `n_ratings` is the number of all. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** How many of the newest to leave out. */
          offset?: number;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["RatingsOfItem"] } } };
    };
  };
  "/admin/stats": {
    /** Sizes of the service, its log, its stream and its live models. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["Stats"] } } };
    };
  };
  "/admin/ratings": {
    /** A page of all ratings, or of those below or above a value. It may be short although there are more. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** `next` of the page before; empty or by default: the first page. */
          cursor?: string;
          /** List only ratings below this value. */
          below?: number;
          /** List only ratings above this value. */
          above?: number;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["RatingPage"] } } };
    };
  };
  "/admin/items": {
    /** A page of all items that are not deleted, or of those that are hidden (`hidden=true`) or not. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** `next` of the page before; empty or by default: the first page. */
          cursor?: string;
          /** Whether to list hidden items or others; default: both. */
          hidden?: boolean;
          /** `tag.NAME=VALUE` (repeat: any of them), `min.NAME=NUMBER`, `max.NAME=NUMBER`. */
          filter?: Record<string, string>;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["ItemList"] } } };
    };
  };
  "/admin/retrain": {
    /**
     * Train a model on every rating acknowledged so far; it goes live if it is good enough.
     *
     * If the same training waits already, the answer is its job, which will read these ratings too.
     */
    post: {
      requestBody: { content: { "application/json": Schemas["Retrain"] } };
      responses: { 202: { content: { "application/json": Schemas["Job"] } } };
    };
  };
  "/admin/jobs": {
    /** All jobs, newest first. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["JobList"] } } };
    };
  };
  "/admin/jobs/{job}": {
    /** One job. */
    get: {
      parameters: {
        path: { job: string };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["Job"] } } };
    };
    /** Stop a queued or running job. A finished job does not change. */
    delete: {
      parameters: { path: { job: string } };
      responses: { 202: { content: { "application/json": Schemas["Job"] } } };
    };
  };
  "/admin/models": {
    /** All snapshots, and which of them are live. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["ModelList"] } } };
    };
  };
  "/admin/models/{model}/quality": {
    /** How well a live model foretold ratings and events before it learned them, and a baseline beside it. */
    get: {
      parameters: {
        path: { model: string };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["QualityReport"] } } };
    };
  };
  "/admin/models/{version}/activate": {
    /** Make a snapshot live under its name, without comparing it with the live one. Use it to roll back. */
    post: {
      parameters: { path: { version: string } };
      responses: { 202: { content: { "application/json": Schemas["ModelInfo"] } } };
    };
  };
  "/admin/models/{name}": {
    /** End a live model or shadow: it neither answers nor learns. Its snapshots stay; activate one to go back. */
    delete: {
      parameters: {
        path: { name: string };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["EndedModel"] } } };
    };
  };
  "/admin/items/{item}/hidden": {
    /** Never recommend this item again; it still counts for learning. */
    put: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** Recommend this item again. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          item: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
  };
  "/admin/users/{user}": {
    /** Forget a user: at once in all answers, and on disk when the job is done. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Forgotten"] } } };
    };
  };
  "/admin/users/{user}/merge": {
    /** Make another user, such as an anonymous one, part of this user: all ratings and events, in one step. */
    post: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
      };
      requestBody: { content: { "application/json": Schemas["MergeBody"] } };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
  };
  "/users/{user}": {
    /** Put the attributes of a user, such as the country: they replace all that the user had. Ratings stay. */
    put: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
      };
      requestBody: { content: { "application/json": Schemas["UserAttributes"] } };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** Change attributes of a user and leave the others: a JSON merge patch, in which null removes. */
    patch: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
      };
      requestBody: { content: { "application/json": Schemas["UserAttributes"] } };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** Remove the attributes of a user. Ratings and events stay: `DELETE /admin/users/{user}` forgets the user. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** The attributes of a user, and the number of ratings. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["UserDetails"] } } };
    };
  };
  "/admin/scenarios/{name}": {
    /** Store a body under a name, for `scenario=` in requests for lists. It replaces an earlier one. */
    put: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          name: string;
        };
      };
      requestBody: { content: { "application/json": Schemas["ScenarioBody"] } };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** Remove a scenario, if there is one of that name. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          name: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** The body of a scenario. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          name: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["DocumentDetails"] } } };
    };
  };
  "/admin/scenarios": {
    /** The names of all scenarios. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["ScenarioList"] } } };
    };
  };
  "/admin/sources": {
    /** How far each source has come; the one that advanced last comes first. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** How many results. */
          n?: number;
          /** How many of the newest to leave out. */
          offset?: number;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["SourceList"] } } };
    };
  };
  "/admin/sources/{source}": {
    /** Forget how far a source has come, if it has: its next batch counts, whatever its offset is. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          source: string;
        };
        query?: {
          /** Only the source of this key, as the list names it; empty: of none. Default: of every key. */
          key?: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["RemovedSource"] } } };
    };
  };
  "/admin/sources/{source}/undo": {
    /**
     * Take back what a source has sent until now: ratings, and events with an id. Then its batches count again.
     *
     * A pair that was rated since keeps the newer rating. `metrics` of the job has the numbers.
     */
    post: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          source: string;
        };
        query?: {
          /** Only the source of this key, as the list names it; empty: of none. Default: of every key. */
          key?: string;
          /** Whether to count what it would take back, and change nothing. */
          dry_run?: boolean;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Job"] } } };
    };
  };
  "/admin/audit": {
    /** What was done with the rights of an admin, and what of it was refused, newest first. */
    get: {
      parameters: {
        query?: {
          /** How many results. */
          n?: number;
          /** `next` of the page before; empty or by default: the first page. */
          cursor?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["AuditPage"] } } };
    };
  };
  "/health/live": {
    /** 200 while the process runs its event loop. */
    get: {
      responses: { 200: { content: { "application/json": Schemas["Alive"] } } };
    };
  };
  "/health/ready": {
    /** 200 when all ratings are read and every live model answers. Without any model, only ratings are needed. */
    get: {
      responses: { 200: { content: { "application/json": Schemas["Ready"] } } };
    };
  };
  "/metrics": {
    /** All metrics, in the text format of Prometheus, or of OpenMetrics if `Accept` asks for it. */
    get: {
      responses: { 200: { content: { "text/plain": unknown; "application/openmetrics-text": unknown } } };
    };
  };
  "/admin/experiments/{experiment}": {
    /** Divide the users among models that answer. It replaces an earlier experiment, and counts begin at 0. */
    put: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          experiment: string;
        };
      };
      requestBody: { content: { "application/json": Schemas["ExperimentBody"] } };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** End an experiment, if there is one of that id; its counts are gone. */
    delete: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          experiment: string;
        };
      };
      responses: { 202: { content: { "application/json": Schemas["Written"] } } };
    };
    /** The arms, and the rates of users with events of each type, with intervals. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          experiment: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["ExperimentReport"] } } };
    };
  };
  "/admin/experiments": {
    /** The ids of all experiments. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
        };
      };
      responses: { 200: { content: { "application/json": Schemas["ExperimentList"] } } };
    };
  };
  "/admin/export": {
    /** All ratings, events or items at one position, which X-As-Of names; `nearfield import` reads them back. */
    get: {
      parameters: {
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** NDJSON, Parquet, or a stream of Arrow. */
          format?: "ndjson" | "parquet" | "arrow";
          /** What to export. */
          what?: "ratings" | "events" | "items";
        };
      };
      responses: { 200: { content: { "application/x-ndjson": unknown; "application/vnd.apache.parquet": unknown;
        "application/vnd.apache.arrow.stream": unknown } } };
    };
  };
  "/admin/users/{user}/export": {
    /** All that is kept of one user: the rows that forgetting this user would remove, also those of merged ids. */
    get: {
      parameters: {
        path: {
          /** Percent-encoded, so any character may occur in it. */
          user: string;
        };
        query?: {
          /** Answer only after the entry with this stream_id has been learned; 503 after two seconds. */
          wait_for?: string;
          /** NDJSON, Parquet, or a stream of Arrow. */
          format?: "ndjson" | "parquet" | "arrow";
        };
      };
      responses: { 200: { content: { "application/x-ndjson": unknown; "application/vnd.apache.parquet": unknown;
        "application/vnd.apache.arrow.stream": unknown } } };
    };
  };
  "/admin/lists": {
    /** Make lists for all or some users, as POST /recommend gives them at this position, in a Parquet file. */
    post: {
      requestBody: { content: { "application/json": Schemas["ListsBody"] } };
      responses: { 202: { content: { "application/json": Schemas["Job"] } } };
    };
  };
  "/admin/exports": {
    /** The files of lists, newest first. */
    get: {
      responses: { 200: { content: { "application/json": Schemas["ListFiles"] } } };
    };
  };
  "/admin/exports/{job}": {
    /** The lists of one job: user, rank, item and score, in Parquet. */
    get: {
      parameters: { path: { job: string } };
      responses: { 200: { content: { "application/vnd.apache.parquet": unknown } } };
    };
  };
  "/admin/schedules": {
    /** The lines of the setting `schedules`: when each is due next, and what became of the last time. */
    get: {
      responses: { 200: { content: { "application/json": Schemas["ScheduleList"] } } };
    };
  };
  "/admin/webhooks": {
    /** All webhooks without their secrets, and what became of their deliveries. */
    get: {
      responses: { 200: { content: { "application/json": Schemas["WebhookList"] } } };
    };
    /** Send a signed request to a URL whenever a job ends, and again until it is accepted. */
    post: {
      requestBody: { content: { "application/json": Schemas["WebhookBody"] } };
      responses: { 201: { content: { "application/json": Schemas["MadeWebhook"] } } };
    };
  };
  "/admin/webhooks/{webhook}": {
    /** Remove a webhook; what is still to be delivered to it is dropped. */
    delete: {
      parameters: { path: { webhook: string } };
      responses: { 200: { content: { "application/json": Schemas["Webhook"] } } };
    };
  };
  "/admin/keys": {
    /** All keys that were made and not revoked, those that have expired too, without the keys themselves. */
    get: {
      responses: { 200: { content: { "application/json": Schemas["KeyList"] } } };
    };
    /** Make a key. The service stores its hash alone: keep the key. */
    post: {
      requestBody: { content: { "application/json": Schemas["KeyBody"] } };
      responses: { 201: { content: { "application/json": Schemas["MadeKey"] } } };
    };
  };
  "/admin/keys/{key}": {
    /**
     * Revoke a key by its id: at once in this process, within a quarter of a second in all that share the
     * folder.
     */
    delete: {
      parameters: { path: { key: string } };
      responses: { 200: { content: { "application/json": Schemas["ListedKey"] } } };
    };
  };
}
