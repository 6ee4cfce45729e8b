//! Paged lists: `limit` and `after` of a request, `next` of its response.
//!
//! A cursor names the last entry by the list's sort key. So entries that are added or removed in
//! between neither appear twice nor hide others.

use super::failure::{Failure, bad_request};

/// The largest page.
const MOST: usize = 1000;

/// The requested part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    limit: Option<usize>,
    after: Option<String>,
}

/// The sort order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Rising,
    Falling,
}

// === impl Page ===

impl Page {
    /// Without a limit, everything.
    pub fn new(limit: Option<usize>, after: Option<String>) -> Result<Self, Failure> {
        match limit {
            Some(limit) if !(1..=MOST).contains(&limit) => {
                Err(bad_request(format!("`limit` is not from 1 to {MOST}")))
            }
            limit => Ok(Self { limit, after }),
        }
    }

    /// Sorts a list by `key` and cuts it; returns the cursor of the rest, if there is one. A list
    /// without a limit stays as it is.
    pub fn cut<T>(
        &self,
        items: &mut Vec<T>,
        order: Order,
        key: impl Fn(&T) -> String,
    ) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        items.sort_by_cached_key(&key);
        if order == Order::Falling {
            items.reverse();
        }
        if let Some(after) = &self.after {
            items.retain(|item| match order {
                Order::Rising => key(item) > *after,
                Order::Falling => key(item) < *after,
            });
        }
        let limit = self.limit.filter(|limit| *limit < items.len())?;
        items.truncate(limit);
        items.last().map(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: usize, after: Option<&str>) -> Page {
        Page::new(Some(limit), after.map(str::to_owned)).unwrap()
    }

    #[test]
    fn pages_together_are_the_list_whatever_goes_in_between() {
        for (order, all) in [
            (Order::Rising, ["a", "b", "c", "d", "e"]),
            (Order::Falling, ["e", "d", "c", "b", "a"]),
        ] {
            let key = |item: &&str| (*item).to_owned();
            let mut first = all.to_vec();
            let next = page(2, None).cut(&mut first, order, key);
            assert_eq!(first, all[..2]);
            // The entry that the cursor names is gone.
            let mut rest: Vec<_> = all.into_iter().filter(|item| *item != all[1]).collect();
            let last = page(3, next.as_deref()).cut(&mut rest, order, key);
            assert_eq!(rest, all[2..]);
            assert_eq!(last, None);
        }
    }

    #[test]
    fn limits_are_sensible() {
        assert!(Page::new(Some(0), None).is_err());
        assert!(Page::new(Some(MOST + 1), None).is_err());
        let mut all = vec!["a"; 3];
        let next = Page::default().cut(&mut all, Order::Rising, |item| (*item).to_owned());
        assert_eq!((all.len(), next), (3, None));
    }
}
