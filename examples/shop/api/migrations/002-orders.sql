CREATE TABLE orders (
    id serial PRIMARY KEY,
    product integer NOT NULL REFERENCES products,
    placed_at timestamptz NOT NULL DEFAULT now()
);
