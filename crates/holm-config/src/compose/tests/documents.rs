//! The table of `docs/compose.md`.

use crate::compose::key_table;

#[test]
fn the_key_table_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compose.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- keys -->\n", "<!-- /keys -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let fresh = [before, begin, &key_table(), end, after].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &fresh).unwrap();
        return;
    }
    assert!(
        text == fresh,
        "docs/compose.md is stale: UPDATE_DOCS=1 cargo nextest run -p holm-config compose"
    );
}
