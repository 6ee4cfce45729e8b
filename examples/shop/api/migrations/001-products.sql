CREATE TABLE products (
    id serial PRIMARY KEY,
    name text NOT NULL UNIQUE,
    cents integer NOT NULL CHECK (cents > 0),
    stock integer NOT NULL CHECK (stock >= 0)
);

INSERT INTO products (name, cents, stock) VALUES
    ('lantern', 3900, 10),
    ('rope', 1250, 10),
    ('kettle', 2600, 10);
