//! Example settings (`.env.example`): the port and the URLs of databases that they show. Values that
//! look like secrets are not used.

use super::database_url::{Kind, Url};
use super::directory::Directory;
use super::environment::{SAMPLES, is_secret};
use super::needs::{Need, add};

pub struct Sample<'a> {
    /// The path of the file.
    pub file: String,
    at: &'a str,
    variables: Vec<(&'a str, &'a str)>,
}

// === impl Sample ===

impl<'a> Sample<'a> {
    pub fn of(directory: Directory<'a>) -> Option<Self> {
        let name = directory.first(&SAMPLES)?;
        let text = directory.text(name)?;
        Some(Self {
            file: directory.path(name),
            at: directory.at(),
            variables: text.lines().filter_map(variable).collect(),
        })
    }

    pub fn is_of(&self, directory: Directory<'_>) -> bool {
        self.at == directory.at()
    }

    pub fn port(&self) -> Option<u16> {
        let port = self.value("PORT")?.parse().ok();
        port.filter(|port| *port >= 80)
    }

    /// A value that may be repeated.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        let mut variables = self.variables.iter();
        let (_, value) = variables.find(|(it, _)| *it == name)?;
        (!value.is_empty() && !is_secret(name, value)).then_some(*value)
    }

    /// The first of these variables that is a plain word.
    pub fn plain(&self, names: &[&str]) -> Option<String> {
        let mut values = names.iter().filter_map(|name| self.value(name));
        values.find(|value| is_plain(value)).map(str::to_owned)
    }

    /// The databases whose URLs it shows.
    pub fn needs(&self) -> Vec<Need> {
        let urls = self.variables.iter().filter_map(|(name, value)| {
            let url = Url::parse(value)?;
            let mut need = Need::new(url.kind, format!("{}: {name}", self.file));
            need.user = url.user.filter(|user| is_plain(user)).map(str::to_owned);
            need.database = url.database.filter(|it| is_plain(it)).map(str::to_owned);
            if url.kind == Kind::Redis {
                (need.user, need.database) = (None, None);
            }
            need.variables = vec![((*name).to_owned(), Some((*value).to_owned()))];
            Some(need)
        });
        let mut needs = Vec::new();
        urls.for_each(|need| add(&mut needs, need));
        needs
    }
}

/// Completes the needs of a directory from its example settings and those of the root.
pub fn with_samples(needs: &mut Vec<Need>, directory: Directory<'_>) {
    let mut places = vec![directory];
    if !directory.is_root() {
        places.push(directory.to_root());
    }
    for sample in places.into_iter().filter_map(Sample::of) {
        for need in sample.needs() {
            // The root's settings are of the whole project: only what this part needs is taken.
            let is_own = sample.is_of(directory);
            if is_own || needs.iter().any(|it| it.kind == need.kind) {
                add(needs, need);
            }
        }
        for need in needs.iter_mut() {
            need.user = need
                .user
                .take()
                .or_else(|| sample.plain(need.kind.user_variables()));
            need.database = need
                .database
                .take()
                .or_else(|| sample.plain(need.kind.database_variables()));
        }
    }
}

/// A word that needs no quotes in a shell, in SQL and in a URL.
pub fn is_plain(word: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !word.is_empty() && word.len() <= 63 && word.chars().all(fits)
}

/// `NAME=value`, `export NAME="value" # comment`.
fn variable(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let value = value.trim();
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let rest = value.strip_prefix(quote)?;
        rest.split(quote).next()
    });
    let plain = value.split(" #").next().unwrap_or_default().trim_end();
    Some((name, quoted.unwrap_or(plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_example_settings() {
        let check = |line: &str, expect| assert_eq!(variable(line), expect, "{line}");
        check("PORT=3000", Some(("PORT", "3000")));
        check("export A = \"b c\" # d", Some(("A", "b c")));
        check("A='b#c'", Some(("A", "b#c")));
        check("A=b # c", Some(("A", "b")));
        check("A=", Some(("A", "")));
        check("# A=b", None);
        check("A-B=c", None);
        check("", None);
    }
}
