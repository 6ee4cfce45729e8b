//! The content of a JSON, TOML or YAML file in one form. The callers parse the formats.

/// A value. Numbers stay as text, because only a few are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    Nothing,
    Flag(bool),
    Number(String),
    Text(String),
    List(Vec<Document>),
    /// In file order.
    Table(Vec<(String, Document)>),
}

// === impl Document ===

impl Document {
    /// The value of a key, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Document> {
        let mut entries = self.entries().iter();
        entries
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The value at a path of keys.
    pub fn at(&self, keys: &[&str]) -> Option<&Document> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    pub fn entries(&self) -> &[(String, Document)] {
        match self {
            Document::Table(entries) => entries,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[Document] {
        match self {
            Document::List(items) => items,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Document::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A text, a number or a flag as text, because formats differ in what they take for text.
    pub fn written(&self) -> Option<String> {
        match self {
            Document::Text(text) | Document::Number(text) => Some(text.clone()),
            Document::Flag(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    /// A list of texts, or one text.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Document::List(items) => items.iter().filter_map(Document::written).collect(),
            other => other.written().into_iter().collect(),
        }
    }

    /// The names in a list, or the keys of a table: Compose allows both for `depends_on`.
    pub fn names(&self) -> Vec<String> {
        match self {
            Document::Table(entries) => entries.iter().map(|(name, _)| name.clone()).collect(),
            other => other.texts(),
        }
    }
}
