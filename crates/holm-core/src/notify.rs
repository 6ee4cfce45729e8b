//! Notifications: texts of programs inside made harmless, how often a workspace may notify, and what is held back
//! until it may again. The daemon delivers.

use crate::comment::clean;
use crate::cut;

/// A time in milliseconds since the epoch.
pub type Millis = i64;

/// The most bytes of a text.
pub const LONGEST: usize = 1024;

/// A text of a program inside: one line without control characters and characters that change the reading order, at
/// most [`LONGEST`] bytes.
pub fn inert(text: &str) -> String {
    // No more is looked at than could be shown, whatever a program sends.
    let text = String::from_utf8_lossy(cut::beginning(text.as_bytes(), 8 * LONGEST));
    let words = text.split_whitespace().map(clean);
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    if line.len() <= LONGEST {
        return line;
    }
    let ellipsis = "…";
    let kept = cut::beginning(line.as_bytes(), LONGEST - ellipsis.len());
    String::from_utf8_lossy(kept).into_owned() + ellipsis
}

/// A text for a place that understands markup, such as a desktop notification.
pub fn without_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A token bucket: a burst, and one more after each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    burst: Millis,
    every: Millis,
    /// When the bucket will be full.
    full_at: Millis,
}

// === impl Bucket ===

impl Bucket {
    /// Full. `every` is in milliseconds.
    pub const fn new(burst: u32, every: u32) -> Self {
        Self {
            burst: burst as Millis,
            every: every as Millis,
            full_at: 0,
        }
    }

    /// Takes a token; `Err` says when there is one again.
    pub fn take(&mut self, now: Millis) -> Result<(), Millis> {
        // A clock that was set back must not silence a workspace for longer than the bucket takes to fill.
        let most = now + self.burst * self.every;
        let full_at = self.full_at.clamp(now, most);
        let free_at = full_at - (self.burst - 1) * self.every;
        if free_at > now {
            self.full_at = full_at;
            return Err(free_at);
        }
        self.full_at = full_at + self.every;
        Ok(())
    }
}

/// The notifications of one workspace: sent at once, or held until its bucket has a token.
#[derive(Clone, Debug)]
pub struct Outbox<T> {
    bucket: Bucket,
    /// The newest one that was held, and how many older ones it stands for.
    held: Option<(T, u64)>,
    due: Millis,
}

/// A notification to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    pub message: T,
    /// How many others of the workspace were held back before it.
    pub more: u64,
}

// === impl Outbox ===

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self {
            bucket: Bucket::new(3, 20_000),
            held: None,
            due: 0,
        }
    }
}

impl<T> Outbox<T> {
    /// A new notification; what was held goes with it.
    pub fn offer(&mut self, message: T, now: Millis) -> Option<Delivery<T>> {
        let more = match self.held.take() {
            Some((_, more)) => more + 1,
            None => 0,
        };
        self.send(message, more, now)
    }

    /// What was held, once it may be sent.
    pub fn flush(&mut self, now: Millis) -> Option<Delivery<T>> {
        let (message, more) = self.held.take()?;
        self.send(message, more, now)
    }

    /// When [`flush`](Self::flush) has something.
    pub fn due(&self) -> Option<Millis> {
        self.held.as_ref().map(|_| self.due)
    }

    fn send(&mut self, message: T, more: u64, now: Millis) -> Option<Delivery<T>> {
        match self.bucket.take(now) {
            Ok(()) => Some(Delivery { message, more }),
            Err(due) => {
                self.held = Some((message, more));
                self.due = due;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_program_is_one_harmless_line() {
        for (text, expect) in [
            ("Is tax before the coupon?", "Is tax before the coupon?"),
            ("a\nerror: b\r\n\tc", "a error: b c"),
            ("\x1b[2J\x1b]0;title\x07x", "[2J]0;titlex"),
            ("\u{202e}evil\u{2066} \u{200f}\u{85}", "evil"),
            ("  \n ", ""),
        ] {
            assert_eq!(inert(text), expect, "{text:?}");
        }
        let long = inert(&"é ".repeat(500_000));
        assert!(
            long.len() <= LONGEST && long.ends_with('…'),
            "{}",
            long.len()
        );
        assert_eq!(inert(&"\u{1b}".repeat(1 << 20)), "");
    }

    #[test]
    fn markup_is_text() {
        let shown = without_markup("<b>\"a\" & 'b'</b>");
        assert_eq!(shown, "&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/b&gt;");
    }

    #[test]
    fn a_bucket_gives_a_burst_and_then_one_at_a_time() {
        let mut bucket = Bucket::new(2, 1000);
        assert_eq!(bucket.take(10_000), Ok(()));
        assert_eq!(bucket.take(10_000), Ok(()));
        assert_eq!(bucket.take(10_000), Err(11_000));
        assert_eq!(bucket.take(10_999), Err(11_000));
        assert_eq!(bucket.take(11_000), Ok(()));
        assert_eq!(bucket.take(11_000), Err(12_000));
        // The clock is set back by a day.
        assert_eq!(bucket.take(-86_400_000), Err(-86_400_000 + 1000));
        assert_eq!(bucket.take(-86_398_000), Ok(()));
    }

    #[test]
    fn what_is_held_goes_with_the_next_one_or_when_it_may() {
        let mut outbox = Outbox::default();
        for number in 0..3 {
            let sent = outbox.offer(number, 0);
            assert_eq!(
                sent,
                Some(Delivery {
                    message: number,
                    more: 0
                })
            );
        }
        assert_eq!(outbox.due(), None);
        for number in 3..7 {
            assert_eq!(outbox.offer(number, 0), None);
        }
        assert_eq!(outbox.due(), Some(20_000));
        assert_eq!(outbox.flush(19_999), None);
        let flushed = outbox.flush(20_000);
        assert_eq!(
            flushed,
            Some(Delivery {
                message: 6,
                more: 3
            })
        );
        assert_eq!((outbox.due(), outbox.flush(90_000)), (None, None));
    }
}
