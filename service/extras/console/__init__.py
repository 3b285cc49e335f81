"""The console: pages for people who operate the service. A client of `Serving`, as the routes of the API are."""
