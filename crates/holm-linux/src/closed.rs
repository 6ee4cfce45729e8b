//! Reading what workspaces wrote, although directories in it may be closed to the user.

use crate::sys::process::{die_with_parent, own_user_namespace};
use crate::{launch, sub_ids};
use holm_core::sub_ids::SubIds;
use holm_keeper::complain;

/// For a process of the user's that reads what workspaces wrote: in a user namespace of its own it may
/// enter directories that are closed to the user. It ends with its parent. Where that does not work,
/// those directories are not read.
///
/// With ranges of ids it may read files of these, too.
pub fn enter_directories(ids: Option<&SubIds>) {
    let _ = die_with_parent();
    if let Some(ids) = ids {
        if let Err(error) = sub_ids::enter(ids) {
            complain!("files of other users cannot be read: {error}");
        }
        let _ = die_with_parent();
        return;
    }
    let own = sub_ids::own();
    if own_user_namespace().is_ok() {
        let _ = launch::map_user(own);
        // Gaining rights has cleared it.
        let _ = die_with_parent();
    }
}
