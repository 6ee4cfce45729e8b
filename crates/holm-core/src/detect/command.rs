//! Reads command lines: their words, and the port that their program will listen on.
//!
//! Only explicit information counts: a number at a known option, or a program with a known default
//! port. Shell variables and quotes are understood as far as such lines use them.

/// A program, its subcommand (empty: none, or an option), and its default port.
const TOOLS: [(&str, &[&str], u16); 27] = [
    ("vite", &["", "dev", "serve"], 5173),
    ("vite", &["preview"], 4173),
    ("next", &["", "dev", "start"], 3000),
    ("react-scripts", &["start"], 3000),
    ("nuxt", &["dev"], 3000),
    ("nuxi", &["dev"], 3000),
    ("astro", &["dev"], 4321),
    ("remix", &["vite:dev"], 5173),
    ("react-router", &["dev"], 5173),
    ("ng", &["serve"], 4200),
    ("vue-cli-service", &["serve"], 8080),
    ("gatsby", &["develop"], 8000),
    ("webpack", &["serve"], 8080),
    ("webpack-dev-server", &[""], 8080),
    ("parcel", &["", "serve"], 1234),
    ("docusaurus", &["start"], 3000),
    ("nest", &["start"], 3000),
    ("vitepress", &["dev"], 5173),
    ("storybook", &["dev"], 6006),
    ("wrangler", &["dev"], 8787),
    ("rails", &["server", "s"], 3000),
    ("manage.py", &["runserver"], 8000),
    ("flask", &["run"], 5000),
    ("uvicorn", &["*"], 8000),
    ("gunicorn", &["*"], 8000),
    ("puma", &["", "*"], 9292),
    ("rackup", &["", "*"], 9292),
];

/// Options whose value is a port, or an address with a port.
const PORT_OPTIONS: [&str; 7] = [
    "--port",
    "-p",
    "--bind",
    "-b",
    "--listen",
    "-l",
    "--http-port",
];

/// The words of a command line without quotes, with operators as separate words.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), inside) => word.push(inside),
            (None, '"' | '\'') => quote = Some(character),
            (None, ';' | '|' | '&' | '(' | ')') => {
                words.push(std::mem::take(&mut word));
                words.push(character.to_string());
            }
            (None, blank) if blank.is_whitespace() => words.push(std::mem::take(&mut word)),
            (None, other) => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

pub fn is_operator(word: &str) -> bool {
    matches!(word, ";" | "|" | "&" | "(" | ")")
}

/// The port that a command line sets.
pub fn written_port(line: &str) -> Option<u16> {
    let words = words(line);
    for (index, word) in words.iter().enumerate() {
        if let Some(value) = word.strip_prefix("PORT=") {
            return port(value);
        }
        if word == "runserver" {
            let address = words.get(index + 1).filter(|next| !next.starts_with('-'));
            if let Some(port) = address.and_then(|address| port(address)) {
                return Some(port);
            }
        }
        for option in PORT_OPTIONS {
            let value = if word == option {
                words.get(index + 1).map(String::as_str)
            } else {
                let behind = word.strip_prefix(option);
                behind.and_then(|value| value.strip_prefix('='))
            };
            if let Some(port) = value.and_then(port) {
                return Some(port);
            }
        }
    }
    None
}

/// The program of a command line with a known default port, and that port.
pub fn default_port(line: &str) -> Option<(&'static str, u16)> {
    let words = words(line);
    words.iter().enumerate().find_map(|(index, word)| {
        let program = word.rsplit('/').next().unwrap_or(word);
        let next = words.get(index + 1).filter(|next| !is_operator(next));
        let next = next.map_or("", String::as_str);
        let next = if next.starts_with('-') { "" } else { next };
        let fits =
            |behind: &[&str]| behind.contains(&next) || (behind.contains(&"*") && !next.is_empty());
        let mut tools = TOOLS.iter();
        let tool = tools.find(|(name, behind, _)| *name == program && fits(behind))?;
        Some((tool.0, tool.2))
    })
}

/// How a line uses `$PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortVariable {
    /// `${PORT:-3000}`.
    Default(u16),
    /// Without a default.
    Needed,
}

pub fn port_variable(line: &str) -> Option<PortVariable> {
    for start in ["${PORT:-", "${PORT-"] {
        if let Some((_, rest)) = line.split_once(start) {
            let number = rest.split('}').next().and_then(port);
            return Some(number.map_or(PortVariable::Needed, PortVariable::Default));
        }
    }
    let is_used = line.contains("${PORT}")
        || line.match_indices("$PORT").any(|(at, found)| {
            let next = line[at + found.len()..].chars().next();
            !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        });
    is_used.then_some(PortVariable::Needed)
}

/// `3000`, `:3000`, `0.0.0.0:3000`, `tcp://0.0.0.0:3000`.
fn port(value: &str) -> Option<u16> {
    let number = value.rsplit(':').next()?;
    number.parse().ok().filter(|number| *number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_written() {
        let check = |line: &str, expect| assert_eq!(written_port(line), expect, "{line}");
        check("vite --port 4000", Some(4000));
        check("vite --port=4000 --host", Some(4000));
        check("next dev -p 3001", Some(3001));
        check("PORT=5000 react-scripts start", Some(5000));
        check("cross-env PORT=5000 node server.js", Some(5000));
        check("gunicorn -b 0.0.0.0:9000 app:app", Some(9000));
        check("puma -b tcp://0.0.0.0:9000", Some(9000));
        check("python manage.py runserver 0.0.0.0:8001", Some(8001));
        check("python manage.py runserver", None);
        check("tsc -p tsconfig.json", None);
        check("vite --port 0", None);
        check("vite --port 99999", None);
        check("bin/rails server -p $PORT", None);
        check("", None);
    }

    #[test]
    fn ports_of_known_programs() {
        let check = |line: &str, expect| {
            assert_eq!(default_port(line).map(|(_, port)| port), expect, "{line}");
        };
        check("vite", Some(5173));
        check("tsc && vite build", None);
        check("tsc && vite", Some(5173));
        check("vite & tailwindcss --watch", Some(5173));
        check("node_modules/.bin/next dev --turbo", Some(3000));
        check("next build", None);
        check("unset PORT && bin/rails server", Some(3000));
        check("rails db:migrate", None);
        check("python manage.py migrate", None);
        check("uvicorn main:app --reload", Some(8000));
        check("nodemon server.js", None);
    }

    #[test]
    fn how_a_line_uses_the_variable() {
        let check = |line: &str, expect| assert_eq!(port_variable(line), expect, "{line}");
        check("puma -p $PORT", Some(PortVariable::Needed));
        check("puma -p ${PORT}", Some(PortVariable::Needed));
        check("puma -p ${PORT:-3000}", Some(PortVariable::Default(3000)));
        check("puma -p ${PORT:-$X}", Some(PortVariable::Needed));
        check("puma -p $PORTS", None);
    }
}
