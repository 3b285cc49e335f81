"""The operations of the tag users. Made by `make clients` from the OpenAPI document of the service."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from nearfield_client.generated.models import Accepted, PostedUser, UserAttributes, UserDetails, Written
from nearfield_client.operation import operation
from nearfield_client.session import Session


@operation("POST", "/users")
def post_users(*, client: Session, body: PostedUser | list[PostedUser]) -> Accepted:
    """Put the attributes of one user, or of an array of users, who are checked one by one. They replace all before."""
    ...


@operation("PUT", "/users/{user}")
def put_user(user: str, *, client: Session, body: UserAttributes) -> Written:
    """Put the attributes of a user, such as the country: they replace all that the user had. Ratings stay.

    Args:
        user: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("PATCH", "/users/{user}")
def patch_user(user: str, *, client: Session, body: UserAttributes) -> Written:
    """Change attributes of a user and leave the others: a JSON merge patch, in which null removes.

    Args:
        user: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("DELETE", "/users/{user}")
def delete_user(user: str, *, client: Session) -> Written:
    """Remove the attributes of a user. Ratings and events stay: `DELETE /admin/users/{user}` forgets the user.

    Args:
        user: Percent-encoded, so any character may occur in it.
    """
    ...


@operation("GET", "/users/{user}")
def get_user(user: str, *, client: Session, wait_for: str | None = None) -> UserDetails:
    """The attributes of a user, and the number of ratings.

    Args:
        user: Percent-encoded, so any character may occur in it.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """
    ...
