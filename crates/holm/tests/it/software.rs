//! Normal software runs inside as it does outside: compilers, interpreters, databases, git.

use crate::support::Island;

/// Runs a script inside that must go well, with a trace that says where it did not.
#[track_caller]
fn must(island: &Island, script: &str) -> String {
    island
        .inside("x", &["bash", "-euxo", "pipefail", "-c", script])
        .ok()
        .out()
}

fn island() -> Island {
    let island = Island::new();
    island.repository("shop").up("x");
    island
}

#[test]
fn gcc_and_make() {
    let island = island();
    let script = r#"
        mkdir -p c && cd c
        printf '#include <stdio.h>\n#include <math.h>\n#include <pthread.h>\nint part(void);\nstatic void *run(void *x) { return x; }\nint main(void) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0); printf("%%d %%.0f\\n", part(), sqrt(1764.0)); return 0; }\n' > main.c
        printf 'int part(void) { return 42; }\n' > part.c
        printf 'main: main.o part.o\n\tcc -o $@ $^ -lm -pthread\n%%.o: %%.c\n\tcc -g -c $<\n' > Makefile
        make -j4 >&2
        ./main
        make | grep -c 'up to date'
        printf 'int part(void) { return 7; }\n' > part.c
        make >&2
        ./main"#;
    assert_eq!(must(&island, script), "42 42\n1\n7 42");
}

#[test]
fn git_in_all_its_parts() {
    let island = island();
    let script = r#"
        git switch -qc topic; echo a > a; git add a; git commit -qm topic
        git switch -q holm/x; echo b > b; git add b; git commit -qm own
        git rebase -q topic; git log --format=%s
        git worktree add -q ~/second topic; git worktree list | wc -l
        git -C ~/second commit -q --allow-empty -m 'in the worktree'; git log -1 --format=%s topic
        echo c > c; git stash -qu; git stash pop -q >/dev/null; git add c; git commit -qm three
        git gc -q --prune=now; git fsck --full; git repack -adq; git status --porcelain
        git clone -q . ~/clone; git -C ~/clone log --format=%s -1
        echo d >> c; git commit -qam four; git -C ~/clone pull -q; git -C ~/clone log --format=%s -1
        git bisect start -q HEAD HEAD~2 >/dev/null; git bisect reset >/dev/null 2>&1
        git format-patch -1 --stdout | git -C ~/clone apply -R
        git submodule --quiet init; git tag -a v1 -m one; git describe
        git blame -s c | wc -l; git grep -n hello | wc -l"#;
    assert_eq!(
        must(&island, script),
        "own\ntopic\nfirst\n2\nin the worktree\nthree\nfour\nv1\n2\n1"
    );
}

#[test]
fn node_and_npm() {
    let island = island();
    let script = r#"
        npm init -y >&2
        npm pkg set scripts.hello='node hello.js' >&2
        mkdir -p dep && printf '{"name":"dep","version":"1.0.0","main":"i.js"}' > dep/package.json
        printf 'module.exports = 42' > dep/i.js
        npm install --offline --no-audit --no-fund ./dep >&2
        printf 'console.log(require("dep"), process.env.npm_lifecycle_event)' > hello.js
        npm run -s hello
        cat > server.js <<'END'
const http = require('http'), fs = require('fs'), cluster = require('worker_threads');
http.createServer((q, s) => s.end('served ' + q.url)).listen(3000, () => fs.writeFileSync('ready', ''));
END
        node server.js & trap "kill $!" EXIT
        until [ -e ready ]; do sleep 0.05; done
        curl -fsS http://localhost:3000/x || node -e 'require("http").get("http://localhost:3000/x", r => r.pipe(process.stdout))'
        echo; npx --no-install --version >&2
        node -e 'require("fs").watch(".", () => { console.log("seen"); process.exit() }); setTimeout(() => require("fs").writeFileSync("f", ""), 50)'
        git status --porcelain | grep -c node_modules"#;
    assert_eq!(must(&island, script), "42 hello\nserved /x\nseen\n1");
}

#[test]
fn python_venv_pip_and_sqlite() {
    let island = island();
    let script = r#"
        python3 -m venv .venv
        . .venv/bin/activate
        mkdir -p pack/dep && echo 'VALUE = 42' > pack/dep/__init__.py
        python - <<'END'
import zipfile, hashlib, base64
files = {'dep/__init__.py': b'VALUE = 42\n',
  'dep-1.0.dist-info/METADATA': b'Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n',
  'dep-1.0.dist-info/WHEEL': b'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
  'dep-1.0.dist-info/entry_points.txt': b'[console_scripts]\ndep-tool = dep:main\n'}
files['dep/__init__.py'] += b'def main(): print("tool", VALUE)\n'
record = ''.join('%s,sha256=%s,%d\n' % (n, base64.urlsafe_b64encode(hashlib.sha256(d).digest()).rstrip(b'=').decode(), len(d)) for n, d in files.items())
with zipfile.ZipFile('dep-1.0-py3-none-any.whl', 'w') as z:
    for n, d in files.items(): z.writestr(n, d)
    z.writestr('dep-1.0.dist-info/RECORD', record + 'dep-1.0.dist-info/RECORD,,\n')
END
        pip install -q --no-index --disable-pip-version-check ./dep-1.0-py3-none-any.whl
        python -c 'import dep, sys; print(dep.VALUE, sys.prefix.endswith("/.venv"))'
        dep-tool
        python - <<'END'
import sqlite3, multiprocessing, tempfile, ctypes, ssl, subprocess
database = sqlite3.connect('db.sqlite')
database.execute('pragma journal_mode=wal')
database.execute('create table t (x)'); database.execute('insert into t values (1), (2)')
database.commit()
print(database.execute('select sum(x) from t').fetchone()[0])
def double(x): return x * 2
with multiprocessing.Pool(2) as pool: print(pool.map(double, [1, 2, 3]))
END"#;
    assert_eq!(must(&island, script), "42 True\ntool 42\n3\n[2, 4, 6]");
}

#[test]
fn postgresql() {
    let island = island();
    let script = r#"
        PATH=$PATH:/usr/lib/postgresql/$(ls /usr/lib/postgresql | head -1)/bin
        initdb -D ~/pg -U me --no-sync >/dev/null
        pg_ctl -D ~/pg -w -s -l ~/pg.log -o "-k /tmp -c listen_addresses=localhost" start
        createdb -h localhost -U me shop
        psql -h localhost -U me -Atqc 'create table t (x int); insert into t select generate_series(1, 1000)' shop
        psql -h /tmp -U me -Atqc 'select sum(x) from t' shop
        psql -h ::1 -U me -Atqc 'select count(*) from t' shop
        psql -h /tmp -U me -Atqc 'set max_parallel_workers_per_gather=2; set parallel_setup_cost=0; set min_parallel_table_scan_size=0; select count(*) from t' shop
        pg_dump -h localhost -U me shop | grep -c 'CREATE TABLE'
        pg_ctl -D ~/pg -w -s -l ~/pg.log restart -m fast
        psql -h localhost -U me -Atqc 'select max(x) from t' shop"#;
    assert_eq!(must(&island, script), "500500\n1000\n1000\n1\n1000");
    // It runs on after the command, and a second one in another workspace has the same port.
    island
        .sh("x", "psql -h localhost -U me -Atqc 'select 1' shop")
        .ok();
    island.holm(&["stop", "x"]).ok();
    let again = "PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | head -1)
        pg_ctl -D ~/pg -w -s -l ~/pg.log start
        psql -h localhost -U me -Atqc 'select max(x) from t' shop";
    assert_eq!(must(&island, again), "1000");
}

#[test]
fn redis() {
    let island = island();
    let script = r#"
        redis-server --daemonize yes --dir ~ --logfile ~/redis.log --unixsocket /tmp/redis.sock >/dev/null
        until [ "$(redis-cli ping 2>/dev/null)" = PONG ]; do sleep 0.05; done
        redis-cli set answer 42
        redis-cli -s /tmp/redis.sock get answer
        redis-cli -h ::1 incr answer
        redis-cli bgsave >/dev/null
        until [ -e ~/dump.rdb ]; do sleep 0.05; done
        redis-cli shutdown"#;
    assert_eq!(must(&island, script), "OK\n42\n43");
}

#[test]
fn everyday_tools() {
    let island = island();
    let script = r#"
        mkdir -p d/e && echo x > d/e/f && ln -s f d/e/l && ln d/e/f d/e/h && mkfifo d/p && chmod 750 d/e
        tar czf d.tgz d && mkdir out && tar xzf d.tgz -C out && stat -c %a out/d/e
        python3 -m zipfile -c d.zip d/e && python3 -m zipfile -l d.zip | grep -c e/f
        ssh-keygen -q -t ed25519 -N '' -f ~/key && stat -c %a ~/key
        head -c 1000000 /dev/zero > /dev/shm/big && stat -c %s /dev/shm/big
        locale >/dev/null; echo 'größe' | grep -c 'gr.ße'
        find . -name f | wc -l; df -h . ~ /tmp >/dev/null; du -s d >/dev/null
        ps -e -o comm= > ~/running; grep -cx bash ~/running; nproc >/dev/null; free >/dev/null; uname -s
        sort -u <(printf 'b\na\nb\n') | tr '\n' ' '; echo
        mv d moved && rm -r moved && [ ! -e d ] && echo gone
        flock ~/lock echo locked; timeout 5 true; setsid true; nice -n 5 echo nice
        mktemp -d >/dev/null; exec 3<>/dev/null; echo $((1 + 1)) | xargs -n1 echo
        tmux -f /dev/null new-session -d -s t 'sleep 1000' && tmux list-sessions -F '#{session_name}'"#;
    assert_eq!(
        must(&island, script),
        "750\n1\n600\n1000000\n1\n2\n1\nLinux\na b \ngone\nlocked\nnice\n2\nt"
    );
}
