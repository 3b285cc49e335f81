"""Contains all the data models used in inputs/outputs"""

from .accepted import Accepted
from .alive import Alive
from .anonymous_body import AnonymousBody
from .anonymous_body_fallback import AnonymousBodyFallback
from .anonymous_body_rotation import AnonymousBodyRotation
from .arm_body import ArmBody
from .arm_report import ArmReport
from .arm_report_types import ArmReportTypes
from .attempt import Attempt
from .attempt_outcome import AttemptOutcome
from .audit_entry import AuditEntry
from .audit_entry_outcome import AuditEntryOutcome
from .audit_entry_via import AuditEntryVia
from .audit_page import AuditPage
from .boost import Boost
from .difference import Difference
from .document_details import DocumentDetails
from .ended_model import EndedModel
from .experiment_body import ExperimentBody
from .experiment_list import ExperimentList
from .experiment_report import ExperimentReport
from .export_format import ExportFormat
from .export_what import ExportWhat
from .extra_rating import ExtraRating
from .fault import Fault
from .filter_ import Filter
from .filter_all_item import FilterAllItem
from .filter_any_item import FilterAnyItem
from .filter_not import FilterNot
from .forgotten import Forgotten
from .item_details import ItemDetails
from .item_details_numbers import ItemDetailsNumbers
from .item_details_tags import ItemDetailsTags
from .item_list import ItemList
from .item_neighbors import ItemNeighbors
from .item_patch import ItemPatch
from .item_patch_numbers_type_0 import ItemPatchNumbersType0
from .item_patch_tags_type_0 import ItemPatchTagsType0
from .item_rating import ItemRating
from .job import Job
from .job_list import JobList
from .job_metrics import JobMetrics
from .job_params import JobParams
from .job_state import JobState
from .job_trials_item import JobTrialsItem
from .key_body import KeyBody
from .key_body_scope import KeyBodyScope
from .key_list import KeyList
from .list_file import ListFile
from .list_files import ListFiles
from .list_hidden_items_filter import ListHiddenItemsFilter
from .list_item_neighbors_filter import ListItemNeighborsFilter
from .list_items_filter import ListItemsFilter
from .list_latest_filter import ListLatestFilter
from .list_popular_filter import ListPopularFilter
from .listed_document import ListedDocument
from .listed_item import ListedItem
from .listed_item_numbers import ListedItemNumbers
from .listed_item_tags import ListedItemTags
from .listed_key import ListedKey
from .listed_key_scope import ListedKeyScope
from .listed_rating import ListedRating
from .listed_source import ListedSource
from .listed_user import ListedUser
from .listed_webhook import ListedWebhook
from .listed_webhook_events_item import ListedWebhookEventsItem
from .lists_body import ListsBody
from .log_stats import LogStats
from .made_key import MadeKey
from .made_key_scope import MadeKeyScope
from .made_webhook import MadeWebhook
from .made_webhook_events_item import MadeWebhookEventsItem
from .max_per import MaxPer
from .merge_body import MergeBody
from .model_info import ModelInfo
from .model_info_metrics import ModelInfoMetrics
from .model_info_parameters import ModelInfoParameters
from .model_list import ModelList
from .model_stats import ModelStats
from .neighbors_of_set import NeighborsOfSet
from .patched_item import PatchedItem
from .patched_item_numbers_type_0 import PatchedItemNumbersType0
from .patched_item_tags_type_0 import PatchedItemTagsType0
from .pin import Pin
from .popular_items import PopularItems
from .posted_event import PostedEvent
from .posted_item import PostedItem
from .posted_item_numbers_type_0 import PostedItemNumbersType0
from .posted_item_tags_type_0 import PostedItemTagsType0
from .posted_rating import PostedRating
from .problem_document import ProblemDocument
from .quality_point import QualityPoint
from .quality_report import QualityReport
from .quality_report_measure import QualityReportMeasure
from .quality_report_untested import QualityReportUntested
from .quality_result import QualityResult
from .rate import Rate
from .rating import Rating
from .rating_estimate import RatingEstimate
from .rating_of_item import RatingOfItem
from .rating_page import RatingPage
from .ratings_of_item import RatingsOfItem
from .ratings_of_user import RatingsOfUser
from .ready import Ready
from .reason import Reason
from .recommend_body import RecommendBody
from .recommend_body_fallback import RecommendBodyFallback
from .recommend_body_rotation import RecommendBodyRotation
from .recommend_user_fallback import RecommendUserFallback
from .recommend_user_filter import RecommendUserFilter
from .recommendation import Recommendation
from .recommendation_fallback import RecommendationFallback
from .rejection import Rejection
from .removed_source import RemovedSource
from .retrain import Retrain
from .retrain_algorithm import RetrainAlgorithm
from .retrain_params import RetrainParams
from .rotation import Rotation
from .scenario_body import ScenarioBody
from .scenario_body_fallback import ScenarioBodyFallback
from .scenario_body_rotation import ScenarioBodyRotation
from .scenario_list import ScenarioList
from .scored_item import ScoredItem
from .scored_item_source import ScoredItemSource
from .scored_user import ScoredUser
from .set_body import SetBody
from .source_list import SourceList
from .stats import Stats
from .stored_calibration import StoredCalibration
from .stored_calibration_values import StoredCalibrationValues
from .stream_stats import StreamStats
from .user_list import UserList
from .user_neighbors import UserNeighbors
from .users_body import UsersBody
from .users_body_fallback import UsersBodyFallback
from .users_body_rotation import UsersBodyRotation
from .webhook import Webhook
from .webhook_body import WebhookBody
from .webhook_body_events_item import WebhookBodyEventsItem
from .webhook_events_item import WebhookEventsItem
from .webhook_list import WebhookList
from .written import Written

__all__ = (
    "Accepted",
    "Alive",
    "AnonymousBody",
    "AnonymousBodyFallback",
    "AnonymousBodyRotation",
    "ArmBody",
    "ArmReport",
    "ArmReportTypes",
    "Attempt",
    "AttemptOutcome",
    "AuditEntry",
    "AuditEntryOutcome",
    "AuditEntryVia",
    "AuditPage",
    "Boost",
    "Difference",
    "DocumentDetails",
    "EndedModel",
    "ExperimentBody",
    "ExperimentList",
    "ExperimentReport",
    "ExportFormat",
    "ExportWhat",
    "ExtraRating",
    "Fault",
    "Filter",
    "FilterAllItem",
    "FilterAnyItem",
    "FilterNot",
    "Forgotten",
    "ItemDetails",
    "ItemDetailsNumbers",
    "ItemDetailsTags",
    "ItemList",
    "ItemNeighbors",
    "ItemPatch",
    "ItemPatchNumbersType0",
    "ItemPatchTagsType0",
    "ItemRating",
    "Job",
    "JobList",
    "JobMetrics",
    "JobParams",
    "JobState",
    "JobTrialsItem",
    "KeyBody",
    "KeyBodyScope",
    "KeyList",
    "ListedDocument",
    "ListedItem",
    "ListedItemNumbers",
    "ListedItemTags",
    "ListedKey",
    "ListedKeyScope",
    "ListedRating",
    "ListedSource",
    "ListedUser",
    "ListedWebhook",
    "ListedWebhookEventsItem",
    "ListFile",
    "ListFiles",
    "ListHiddenItemsFilter",
    "ListItemNeighborsFilter",
    "ListItemsFilter",
    "ListLatestFilter",
    "ListPopularFilter",
    "ListsBody",
    "LogStats",
    "MadeKey",
    "MadeKeyScope",
    "MadeWebhook",
    "MadeWebhookEventsItem",
    "MaxPer",
    "MergeBody",
    "ModelInfo",
    "ModelInfoMetrics",
    "ModelInfoParameters",
    "ModelList",
    "ModelStats",
    "NeighborsOfSet",
    "PatchedItem",
    "PatchedItemNumbersType0",
    "PatchedItemTagsType0",
    "Pin",
    "PopularItems",
    "PostedEvent",
    "PostedItem",
    "PostedItemNumbersType0",
    "PostedItemTagsType0",
    "PostedRating",
    "ProblemDocument",
    "QualityPoint",
    "QualityReport",
    "QualityReportMeasure",
    "QualityReportUntested",
    "QualityResult",
    "Rate",
    "Rating",
    "RatingEstimate",
    "RatingOfItem",
    "RatingPage",
    "RatingsOfItem",
    "RatingsOfUser",
    "Ready",
    "Reason",
    "Recommendation",
    "RecommendationFallback",
    "RecommendBody",
    "RecommendBodyFallback",
    "RecommendBodyRotation",
    "RecommendUserFallback",
    "RecommendUserFilter",
    "Rejection",
    "RemovedSource",
    "Retrain",
    "RetrainAlgorithm",
    "RetrainParams",
    "Rotation",
    "ScenarioBody",
    "ScenarioBodyFallback",
    "ScenarioBodyRotation",
    "ScenarioList",
    "ScoredItem",
    "ScoredItemSource",
    "ScoredUser",
    "SetBody",
    "SourceList",
    "Stats",
    "StoredCalibration",
    "StoredCalibrationValues",
    "StreamStats",
    "UserList",
    "UserNeighbors",
    "UsersBody",
    "UsersBodyFallback",
    "UsersBodyRotation",
    "Webhook",
    "WebhookBody",
    "WebhookBodyEventsItem",
    "WebhookEventsItem",
    "WebhookList",
    "Written",
)
