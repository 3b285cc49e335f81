"""`Visitor`: a browser without scripts, that keeps cookies and sends forms as pages have them."""

import html
import re

import httpx

ADMIN_KEY = "key-of-the-admins"


class Visitor(httpx.Client):
    """A client of the console of the service at a URL, which may have the path of a data set."""

    def __init__(self, url: str) -> None:
        super().__init__(base_url=url, timeout=60.0)

    def open(self, page: str, **query: str) -> httpx.Response:
        """A page, by its name."""
        return self.get(f"/console/{page}", params=query or None)

    def token(self, page: str = "models") -> str:
        """The token in the forms of a page."""
        (found, *_) = re.findall(r'name="token" value="([^"]+)"', self.open(page).text)
        return html.unescape(found)

    def submit(self, action: str, page: str = "models", **fields: str) -> httpx.Response:
        """Send a form of a page."""
        return self.post(f"/console/{action}", data={"token": self.token(page), **fields})

    def sign_in(self, key: str = ADMIN_KEY) -> httpx.Response:
        """Send the form of the login."""
        return self.submit("login", "login", key=key)
