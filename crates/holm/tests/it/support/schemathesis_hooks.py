"""What schemathesis has to know to ask something useful: ids that exist, and answers that end."""

import os

import schemathesis

WORKSPACE, PROJECT = os.environ["WORKSPACE"], os.environ["PROJECT"]


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    # Half of the time something that is there, so that more than 404 is asked for.
    if path_parameters and "id" in path_parameters and hash(str(path_parameters)) % 2:
        is_project = "/projects/" in context.operation.path
        path_parameters["id"] = PROJECT if is_project else WORKSPACE
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    # An answer that goes on and on is not one that can be looked at.
    for name in ["follow", "watch"]:
        if query and str(query.get(name)).lower() == "true":
            del query[name]
    # A file that its own user may not read breaks an archive of it in the middle, as it should.
    if query and str(query.get("mode", "")).isdigit():
        query["mode"] = "644"
    return query


@schemathesis.hook
def map_body(context, body):
    # Whoever waits for a terminal without a limit waits for minutes.
    if context.operation.path.endswith("/wait") and isinstance(body, dict):
        body["timeout_ms"] = 200
    return body


@schemathesis.serializer("application/x-tar")
def tar(context, value):
    return str(value).encode("utf-8", "replace")
