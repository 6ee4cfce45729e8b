//! Kinds of databases, and the URLs by which programs reach them.

/// A kind of database, by the protocol that clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mysql,
    Redis,
    /// holm starts no server for it.
    Mongo,
}

/// The parts of a database's URL that are taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    pub kind: Kind,
    /// With the driver: `postgresql+asyncpg`.
    scheme: &'a str,
    pub user: Option<&'a str>,
    pub database: Option<&'a str>,
    /// With its `?`.
    query: &'a str,
}

/// How clients inside reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub kind: Kind,
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    /// `None`: the server takes any.
    pub password: Option<String>,
    pub database: Option<String>,
}

// === impl Kind ===

impl Kind {
    pub fn title(self) -> &'static str {
        match self {
            Kind::Postgres => "PostgreSQL",
            Kind::Mysql => "MySQL",
            Kind::Redis => "Redis",
            Kind::Mongo => "MongoDB",
        }
    }

    /// The port that its servers listen on.
    pub fn port(self) -> u16 {
        match self {
            Kind::Postgres => 5432,
            Kind::Mysql => 3306,
            Kind::Redis => 6379,
            Kind::Mongo => 27017,
        }
    }

    /// The variable that programs usually read its URL from.
    pub fn variable(self) -> &'static str {
        match self {
            Kind::Redis => "REDIS_URL",
            Kind::Mongo => "MONGODB_URI",
            Kind::Postgres | Kind::Mysql => "DATABASE_URL",
        }
    }

    /// Variables of example settings with the name of the user.
    pub fn user_variables(self) -> &'static [&'static str] {
        match self {
            Kind::Postgres => &["POSTGRES_USER", "PGUSER", "DB_USER", "DATABASE_USER"],
            Kind::Mysql => &["MYSQL_USER", "DB_USER", "DATABASE_USER"],
            Kind::Redis | Kind::Mongo => &[],
        }
    }

    pub fn database_variables(self) -> &'static [&'static str] {
        match self {
            Kind::Postgres => &["POSTGRES_DB", "PGDATABASE", "DB_NAME", "DATABASE_NAME"],
            Kind::Mysql => &["MYSQL_DATABASE", "DB_NAME", "DATABASE_NAME"],
            Kind::Redis | Kind::Mongo => &[],
        }
    }

    /// The kind that a URL's scheme, a dialect or a provider names.
    pub fn named(word: &str) -> Option<Self> {
        let word = word.split('+').next().unwrap_or(word);
        Some(match word {
            "postgres" | "postgresql" | "postgis" | "pg" | "cockroachdb" => Kind::Postgres,
            "mysql" | "mysql2" | "mariadb" | "trilogy" => Kind::Mysql,
            "redis" | "rediss" => Kind::Redis,
            "mongodb" => Kind::Mongo,
            _ => return None,
        })
    }
}

// === impl Url ===

impl<'a> Url<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let kind = Kind::named(scheme)?;
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        let user = user.and_then(|user| user.split(':').next());
        Some(Self {
            kind,
            scheme,
            user: user.filter(|user| !user.is_empty()),
            database: Some(path).filter(|path| !path.is_empty()),
            query,
        })
    }
}

// === impl Access ===

impl Access {
    pub const LOCAL: &str = "127.0.0.1";

    /// A URL with the scheme, the number of a Redis database and the query of another one.
    pub fn like(&self, shown: &str) -> String {
        let shown = Url::parse(shown).filter(|url| url.kind == self.kind);
        let scheme = shown.as_ref().map(|url| url.scheme);
        let scheme = scheme.filter(|scheme| {
            scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '+')
        });
        let scheme = scheme.unwrap_or(match self.kind {
            Kind::Postgres => "postgres",
            Kind::Mysql => "mysql",
            Kind::Redis => "redis",
            Kind::Mongo => "mongodb",
        });
        // A host that takes only TLS is not the one inside.
        let scheme = if scheme == "rediss" { "redis" } else { scheme };
        let number = shown.as_ref().and_then(|url| url.database);
        let number = number.filter(|it| self.kind == Kind::Redis && it.parse::<u8>().is_ok());
        let path = self.database.as_deref().or(number);
        let path = path.map_or(String::new(), |path| format!("/{}", escaped(path)));
        let user = self.user.as_deref().map(escaped).unwrap_or_default();
        let user = match self.password.as_deref().map(escaped) {
            Some(password) => format!("{user}:{password}@"),
            None if user.is_empty() => user,
            None => format!("{user}@"),
        };
        // Such as Prisma's `?schema=public`. Options of TLS belong to another host.
        let query = shown.as_ref().map_or("", |url| url.query);
        let is_kept = !query.contains("ssl") && query.chars().all(|c| c.is_ascii_graphic());
        let query = if is_kept { query } else { "" };
        // The administrator that the image makes belongs to this database.
        let query = match (self.kind, &self.password) {
            (Kind::Mongo, Some(_)) => "?authSource=admin",
            _ => query,
        };
        format!("{scheme}://{user}{}:{}{path}{query}", self.host, self.port)
    }
}

/// A part of a URL.
fn escaped(part: &str) -> String {
    let mut text = String::new();
    for byte in part.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_their_form_and_lose_their_password() {
        let access = |kind, user: Option<&str>, port, database: Option<&str>| Access {
            kind,
            host: Access::LOCAL.to_owned(),
            port,
            user: user.map(str::to_owned),
            password: None,
            database: database.map(str::to_owned),
        };
        let postgres = access(Kind::Postgres, Some("shop"), 5432, Some("shop_dev"));
        let check = |access: &Access, shown: &str, expect: &str| {
            assert_eq!(access.like(shown), expect, "{shown}");
        };
        check(&postgres, "", "postgres://shop@127.0.0.1:5432/shop_dev");
        check(
            &postgres,
            "postgresql+asyncpg://a:b@db/x",
            "postgresql+asyncpg://shop@127.0.0.1:5432/shop_dev",
        );
        check(
            &postgres,
            "postgresql://a:b@localhost:5433/x?schema=public",
            "postgresql://shop@127.0.0.1:5432/shop_dev?schema=public",
        );
        check(
            &postgres,
            "postgres://a:b@db.example.org/x?sslmode=require",
            "postgres://shop@127.0.0.1:5432/shop_dev",
        );
        let with_password = Access {
            host: "db".to_owned(),
            password: Some("p@ss:/?".to_owned()),
            ..postgres.clone()
        };
        let expect = "postgres://shop:p%40ss%3A%2F%3F@db:5432/shop_dev";
        check(&with_password, "postgres://a:b@c/x", expect);
        let redis = access(Kind::Redis, None, 6379, None);
        check(
            &redis,
            "rediss://:x@host:6380/2",
            "redis://127.0.0.1:6379/2",
        );
        check(&redis, "redis://host", "redis://127.0.0.1:6379");
        check(&redis, "postgres://host/2", "redis://127.0.0.1:6379");
    }

    #[test]
    fn parts_of_urls() {
        let url = Url::parse("postgres://user:p%40ss@db:5432/name?x=1").unwrap();
        assert_eq!(
            (url.user, url.database, url.query),
            (Some("user"), Some("name"), "?x=1")
        );
        let url = Url::parse("redis://cache").unwrap();
        assert_eq!((url.user, url.database, url.query), (None, None, ""));
        for other in ["http://x", "file:./dev.db", "", "://", "postgres:x"] {
            assert_eq!(Url::parse(other), None, "{other}");
        }
    }
}
