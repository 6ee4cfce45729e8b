"""A real MCP client: the Python package `mcp`. Calls every tool of holm, over stdio and over HTTP, and
says what it saw as one JSON document. Arguments: the program, a scenario, and JSON for it."""

import asyncio, contextlib, json, os, subprocess, sys

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

PROGRAM, SCENARIO, GIVEN = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
CALLED = []


class ToolError(Exception):
    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.code = error["code"]
        self.error = error


@contextlib.asynccontextmanager
async def stdio(*arguments):
    server = StdioServerParameters(command=PROGRAM, args=["mcp", *arguments], env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams[:2]) as session:
        session.first = await session.initialize()
        yield session


@contextlib.asynccontextmanager
async def http(url, token):
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as client:
        async with streamable_http_client(url, http_client=client) as streams:
            async with ClientSession(*streams[:2]) as session:
                session.first = await session.initialize()
                yield session


async def call(session, tool, progress=None, /, **arguments):
    async def heard(done, total, message):
        progress.append((done, message))

    CALLED.append(tool)
    callback = heard if progress is not None else None
    result = await session.call_tool(tool, arguments, progress_callback=callback)
    if result.is_error:
        text = result.content[0].text
        error = result.structured_content["error"]
        assert error["message"] in text and error["hint"] in text, text
        raise ToolError(error)
    # What is structured is also there as text, for clients that know nothing else.
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refused(session, tool, /, **arguments):
    try:
        await call(session, tool, **arguments)
    except ToolError as error:
        return error.code
    raise AssertionError(f"{tool} was not refused: {arguments}")


async def everything(session):
    """Every tool at least once."""
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    for tool in tools.values():
        assert tool.description and tool.input_schema["additionalProperties"] is False, tool.name
        assert tool.annotations.read_only_hint is not None, tool.name
    assert tools["diff"].annotations.read_only_hint
    assert tools["workspace_remove"].annotations.destructive_hint
    assert tools["exec"].input_schema["required"] == ["workspace", "command"]
    seen = {"tools": sorted(tools)}

    # Projects: by path, cloned, and new.
    shop = GIVEN["shop"]
    project = await call(session, "project_create", path=shop)
    assert project["name"] == "shop", project
    assert await refused(session, "project_create", path=GIVEN["secret"]) == "refused"
    assert await refused(session, "project_create", path="/etc") == "refused"
    assert await refused(session, "project_create", url="ext::touch /tmp/x") == "bad_request"
    assert await refused(session, "project_create") == "bad_request"
    assert await refused(session, "project_create", url=f"file://{shop}") == "bad_request"
    clone = await call(session, "project_create", url=f"ssh://git@git.test{shop}", name="clone")
    assert clone["id"] != project["id"] and clone["path"].endswith("/src/clone"), clone
    new = await call(session, "project_create", name="fresh", protected_paths=["AGENTS.md"])
    assert new["protected_paths"] == ["AGENTS.md"] and os.listdir(new["path"]) == [".git"], new
    guarded = await call(session, "workspace_create", project="fresh", label="guarded")
    assert guarded["protected_paths"] == ["AGENTS.md"], guarded
    tried = await call(session, "exec", workspace=guarded["id"], command=["sh", "-c", "echo x > AGENTS.md"])
    assert tried["exit_code"] != 0, tried
    await call(session, "workspace_remove", workspace=guarded["id"])
    assert await refused(session, "project_create", name="fresh") == "already_exists"
    assert await refused(session, "project_create", name="../x") == "bad_request"
    assert await refused(session, "project_create", name="y", isolation="none") == "bad_request"
    listed = await call(session, "project_list")
    assert {"shop", "clone", "fresh"} <= {one["name"] for one in listed["projects"]}, listed

    # Workspaces.
    progress = []
    made = await call(session, "workspace_create", progress, path=shop, label="fix")
    assert made["created"] and made["state"] == "running" and made["label"] == "fix", made
    seen["progress"] = len(progress)
    again = await call(session, "workspace_create", project="shop", label="fix")
    assert again["created"] is False and again["id"] == made["id"]
    empty = await call(session, "workspace_create", project="fresh", label="empty", wait=False)
    assert await refused(session, "workspace_create", label="x") == "bad_request"
    assert await refused(session, "workspace_create", project="nobody") == "project_not_found"
    assert await refused(session, "workspace_create", path=shop, label="-x") == "invalid_label"
    rows = (await call(session, "workspace_list"))["workspaces"]
    assert {row["id"] for row in rows} == {made["id"], empty["id"]}
    shown = await call(session, "workspace_show", workspace="fix")
    assert shown["isolation"]["seccomp"] and shown["id"] == made["id"]
    assert await refused(session, "workspace_show", workspace="nobody") == "workspace_not_found"
    assert (await call(session, "workspace_stop", workspace="fix"))["state"] == "stopped"
    assert (await call(session, "workspace_start", workspace="fix"))["state"] == "running"
    renamed = await call(session, "workspace_rename", workspace="fix", label="mend")
    assert renamed["label"] == "mend" and renamed["id"] == made["id"]

    # Inside.
    ran = await call(session, "exec", workspace="mend", command=["sh", "-c", "cat; echo no >&2; exit 3"], message="hé")
    assert ran == {"exit_code": 3, "stdout": "hé", "stderr": "no\n"}, ran
    long = "for i in $(seq 60); do echo line $i; sleep 0.02; done"
    progress = []
    await call(session, "exec", progress, workspace="mend", command=["sh", "-c", long], env={"A": "1"}, cwd="/tmp")
    assert progress and all(b[0] > a[0] for a, b in zip(progress, progress[1:])), progress
    late = await call(session, "exec", workspace="mend", command=["sleep", "60"], timeout="200ms")
    assert late["exit_code"] == 124, late
    big = await call(session, "exec", workspace="mend", command=["seq", "100000"])
    assert big["stdout"].endswith("99999\n100000\n") and big["stdout_dropped"] > 0
    wrote = await call(session, "file_write", workspace="mend", path="new/note.txt", content="hello\n")
    assert wrote["kind"] == "file", wrote
    read = await call(session, "file_read", workspace="mend", path="new/note.txt")
    assert (read["content"], read["encoding"], read["more"]) == ("hello\n", "utf-8", False), read
    binary = "AP/+"
    await call(session, "file_write", workspace="mend", path="b", content=binary, encoding="base64", executable=True)
    read = await call(session, "file_read", workspace="mend", path="b")
    assert (read["content"], read["encoding"]) == (binary, "base64"), read
    part = await call(session, "file_read", workspace="mend", path="new/note.txt", offset=1, length=2)
    assert part["content"] == "el" and part["more"], part
    entries = (await call(session, "file_list", workspace="mend", path="."))["entries"]
    assert {"new", "b", "README.md"} <= {entry["name"] for entry in entries}
    assert await refused(session, "file_read", workspace="mend", path="../../etc/passwd") == "invalid_path"
    changes = (await call(session, "changes", workspace="mend"))["changes"]
    assert {(one["path"], one["operation"]) for one in changes} == {("b", "create"), ("new/note.txt", "create")}
    assert "+hello" in (await call(session, "diff", workspace="mend"))["diff"]

    # Reviews: a person comments, the agent answers. No tool approves.
    review = await call(session, "review", workspace="mend", mark=True, since="base")
    assert {one["path"] for one in review["files"]} == {"b", "new/note.txt"}, review
    assert await refused(session, "notify", workspace="mend", text="only inside") == "outside_workspace"
    assert all(one["next"] for one in (await call(session, "inbox"))["items"])
    turns = (await call(session, "turns", workspace="mend"))["turns"]
    assert turns[-1]["tree"] == review["tree"], turns
    subprocess.run([PROGRAM, "comment", "mend", "new/note.txt:1", "why?"], check=True, capture_output=True)
    checked = (await call(session, "check", workspace="mend", name="served"))["checks"]
    assert [(check["name"], check["state"]) for check in checked] == [("served", "passed")], checked
    assert await refused(session, "check", workspace="mend", name="nope") == "check_not_found"
    assert (await call(session, "comments_list", workspace="mend", open=True))["comments"][0]["text"] == "why?"
    answered = await call(session, "comment_reply", workspace="mend", comment="c1", text="because")
    assert answered["comments"][0]["replies"][0]["text"] == "because", answered
    resolved = await call(session, "comment_resolve", workspace="mend", comment="c1")
    assert resolved["comments"][0]["state"] == "resolved", resolved
    assert await refused(session, "comment_resolve", workspace="mend", comment="c9") == "comment_not_found"

    # Services, ports, logs.
    restarted = await call(session, "service_restart", workspace="mend", service="web")
    assert restarted["services"][0]["state"] == "ready", restarted
    assert await refused(session, "service_restart", workspace="mend", service="x") == "service_not_found"
    ports = (await call(session, "ports", workspace="mend"))["ports"]
    assert ports[0]["name"] == "web" and ports[0]["workspace"] == made["id"], ports
    lines = (await call(session, "logs", workspace="mend", service="web", last=5))["lines"]
    assert any("listening" in line["text"] for line in lines), lines
    here = await call(session, "here", workspace="mend")
    assert here["label"] == "mend" and here["services"][0]["name"] == "web", here
    taken = await call(session, "checkout", workspace="mend")
    assert taken["checkout"][0]["label"] == "mend", taken
    assert (await call(session, "checkout"))["checkout"]
    await call(session, "checkout", none=True)
    assert not (await call(session, "checkout"))["checkout"]

    # Resources.
    uris = {str(one.uri): one for one in (await session.list_resources()).resources}
    base = f"holm://workspaces/{made['id']}"
    assert f"{base}/here" in uris and f"{base}/logs/web" in uris, uris
    assert len((await session.list_resource_templates()).resource_templates) == 3
    text = (await session.read_resource(f"{base}/here")).contents[0].text
    assert text.startswith("# Workspace `mend`"), text
    text = (await session.read_resource(f"{base}/logs/web")).contents[0].text
    assert "listening" in text, text

    # Data.
    kept = await call(session, "snapshot", workspace="mend", name="before")
    assert kept["snapshots"][0]["name"] == "before", kept
    forked = await call(session, "fork", workspace="mend", label="copy", at="before")
    assert forked["label"] == "copy" and forked["id"] != made["id"]
    compared = (await call(session, "compare", workspaces=["mend", "copy"]))["workspaces"]
    assert [one["label"] for one in compared] == ["mend", "copy"], compared
    assert await refused(session, "reset", workspace="mend") == "unsaved_work"
    await call(session, "reset", workspace="mend", force=True)
    assert not (await call(session, "changes", workspace="mend"))["changes"]
    moved = await call(session, "workspace_assign", workspace="mend", ref="other")
    assert moved["ref"] == "other" and moved["move"]["changed"] > 0, moved
    assert await refused(session, "workspace_assign", workspace="mend", ref="nowhere") == "ref_not_found"
    synced = await call(session, "workspace_sync", workspace="mend")
    assert synced["commit"] == moved["commit"], synced

    # The trash.
    assert await refused(session, "workspace_remove", workspace="copy") == "unsaved_work"
    gone = await call(session, "workspace_remove", workspace="copy", force=True)
    assert gone["state"] == "removed", gone
    assert (await call(session, "workspace_list", trash=True))["workspaces"][0]["id"] == forked["id"]
    back = await call(session, "workspace_restore", workspace="copy")
    assert back["id"] == forked["id"] and back["state"] == "stopped", back

    await sessions(session)
    await runs(session)
    # Arguments are read strictly.
    assert await refused(session, "exec", workspace="mend", command="true") == "bad_request"
    assert await refused(session, "exec", workspace="mend", command=[]) == "bad_request"
    assert await refused(session, "exec", workspace="mend", command=["true"], owner="root") == "bad_request"
    assert await refused(session, "logs", workspace="mend", last=-1) == "bad_request"
    seen["called"] = sorted(set(CALLED))
    return seen


async def sessions(session):
    spawned = await call(session, "session_spawn", workspace="mend", command=["sh"], name="shell")
    child = await call(session, "session_spawn", workspace="mend", command=["cat"], parent="shell")
    assert child["parent"] == spawned["id"], child
    sent = await call(session, "session_message", session=spawned["id"], message="echo $((40+2))")
    waited = await call(session, "session_wait", session="shell", pattern="^42", timeout="60s")
    assert waited["reason"] == "matched", waited
    read = await call(session, "session_read", session="shell", since=sent["cursor"])
    assert "42" in read["text"], read
    assert (await call(session, "session_read", session="shell"))["screen"]["cols"] == 80
    await call(session, "session_message", session="shell", keys=["C-d"])
    waited = await call(session, "session_wait", session=spawned["id"], timeout=60)
    assert waited["reason"] == "exited", waited
    assert await refused(session, "session_read", session="nobody") == "session_not_found"


async def runs(session):
    script = "cat > said; echo out; echo err >&2; exit 4"
    ran = await call(
        session, "run", workspace="mend", command=["sh", "-c", script], message="do it", files={"context.txt": "c"}, key="once"
    )
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (4, "out\n", "err\n"), ran
    assert {change["path"] for change in ran["changes"]} >= {"said"}, ran
    same = await call(
        session, "run", workspace="mend", command=["sh", "-c", script], message="do it", files={"context.txt": "c"}, key="once"
    )
    assert same["id"] == ran["id"], same
    assert await refused(session, "run", workspace="mend", agent="nobody") == "agent_not_found"
    listed = (await call(session, "runs_list", workspace="mend"))["runs"]
    assert [one["id"] for one in listed] == [ran["id"]], listed
    assert (await call(session, "runs_list", run=ran["id"]))["message"] == "do it"
    begun = await call(session, "run", workspace="mend", command=["sleep", "100"], wait=False)
    assert begun["state"] in ("queued", "running"), begun


async def scoped(session, other):
    """A server for one workspace: no other can be named, by any tool."""
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    for hidden in ("workspace_create", "workspace_list", "workspace_remove", "project_create", "project_list", "fork", "checkout"):
        assert hidden not in tools, hidden
        try:
            await session.call_tool(hidden, {})
            raise AssertionError(f"{hidden} can be called")
        except Exception as error:
            assert "unknown tool" in str(error), error
    assert "workspace" not in tools["exec"].input_schema["required"]
    own = await call(session, "workspace_show")
    codes = set()
    for tool in tools.values():
        if "workspace" not in tool.input_schema["properties"]:
            continue
        sample = {"string": "x", "integer": 1, "boolean": True, "array": ["x"], "object": {}}
        needed = {name: tool.input_schema["properties"][name]["type"] for name in tool.input_schema["required"]}
        arguments = {name: sample[kind if isinstance(kind, str) else kind[0]] for name, kind in needed.items()}
        for name in (other["id"], other["label"], other["project"] + "/" + other["label"], other["id"][:6]):
            codes.add(await refused(session, tool.name, **{**arguments, "workspace": name}))
    assert codes == {"workspace_not_found"}, codes
    for uri in (f"holm://workspaces/{other['id']}/here", f"holm://workspaces/{other['id']}/logs"):
        try:
            await session.read_resource(uri)
            raise AssertionError(uri)
        except Exception as error:
            assert "no resource" in str(error), error
    assert all(own["id"] in str(one.uri) for one in (await session.list_resources()).resources)
    ran = await call(session, "exec", command=["cat", "README.md"])
    assert ran["exit_code"] == 0, ran
    for name in (".", own["id"], own["label"]):
        assert (await call(session, "workspace_show", workspace=name))["id"] == own["id"]
    return {"id": own["id"], "tools": sorted(tools)}


async def cancel(session):
    """What nobody waits for any more ends inside, too."""
    task = asyncio.create_task(call(session, "exec", workspace="mend", command=["sleep", "12345"]))
    running = ["sh", "-c", "until pgrep -x sleep >/dev/null; do sleep 0.05; done; echo yes"]
    assert (await call(session, "exec", workspace="mend", command=running, timeout="60s"))["exit_code"] == 0
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    gone = ["sh", "-c", "while pgrep -f 'sleep 1234[5]' >/dev/null; do sleep 0.05; done"]
    assert (await call(session, "exec", workspace="mend", command=gone, timeout="60s"))["exit_code"] == 0


async def main():
    if SCENARIO == "everything":
        async with stdio() as session:
            assert session.first.server_info.name == "holm" and session.first.instructions
            seen = await everything(session)
            await cancel(session)
        # The same program goes on over HTTP: its start takes longer than most of its requests.
        status = json.loads(subprocess.check_output([PROGRAM, "daemon", "status", "--json"]))
        with open(GIVEN["token"]) as file:
            token = file.read().strip()
        async with http(f"http://127.0.0.1:{status['port']}/mcp", token) as session:
            tools = sorted(tool.name for tool in (await session.list_tools()).tools)
            rows = (await call(session, "workspace_list"))["workspaces"]
            made = await call(session, "workspace_create", path=GIVEN["shop"], label="by-http")
            ran = await call(session, "exec", workspace="by-http", command=["pwd"])
            assert await refused(session, "project_create", path=GIVEN["secret"]) == "refused"
            around = "ssh://git@127.0.0.1" + GIVEN["secret"]
            assert await refused(session, "project_create", url=around) == "refused"
            over_http = {"tools": tools, "count": len(rows), "root": made["root"], "pwd": ran["stdout"].strip()}
        return {"stdio": seen, "http": over_http}
    if SCENARIO == "scoped":
        arguments = ["--workspace", GIVEN["workspace"]] if GIVEN["workspace"] else []
        async with stdio(*arguments) as session:
            return await scoped(session, GIVEN["other"])
    raise SystemExit(f"no scenario {SCENARIO}")


print(json.dumps(asyncio.run(asyncio.wait_for(main(), 240))))
