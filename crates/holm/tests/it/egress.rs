//! The way out of a workspace, with real programs, to hosts in namespaces that the test made.

use crate::support::World;

const ALLOW: &str =
    "[egress]\nmode = \"allow\"\nallow = [\"web.test\", \"*.wild.test:80\", \"192.0.2.20\"]\n";

#[test]
fn any_program_reaches_what_is_allowed_by_name_and_by_address() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    let got = island.sh("x", "curl -sS --max-time 10 http://web.test/a; echo; curl -sS -4 http://a.wild.test/b; echo; curl -sS http://192.0.2.20/c; cat /etc/resolv.conf /etc/hosts");
    println!("{got:?}\n{:?}", world.seen());
    assert_eq!(got.code, Some(0));
}
