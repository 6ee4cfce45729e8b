"""What schemathesis has to know to ask something useful: who asks, ids that exist, and answers that end."""

import collections
import os

import schemathesis

WORKSPACE, PROJECT = os.environ["WORKSPACE"], os.environ["PROJECT"]
USER, GUEST, WORKSPACE_OF_GUEST = (os.environ[name] for name in ("USER_TOKEN", "GUEST_TOKEN", "WORKSPACE_OF_GUEST"))
ASKED = collections.Counter()


@schemathesis.hook
def before_call(context, case, kwargs):
    # Of each operation the guest asks first, and then every fourth time. Its workspace is not named by the user, who may remove
    # the other one.
    is_guest = ASKED[case.operation.label] % 4 == 0
    ASKED[case.operation.label] += 1
    case.headers = {**(case.headers or {}), "Authorization": "Bearer " + (GUEST if is_guest else USER)}
    if is_guest and case.path_parameters and case.path_parameters.get("id") == WORKSPACE:
        case.path_parameters["id"] = WORKSPACE_OF_GUEST


@schemathesis.hook
def after_call(context, case, response):
    # The test looks for what a guest may ask for.
    if GUEST in case.headers["Authorization"] and response.status_code == 200:
        print("the guest got", case.operation.label, flush=True)


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
