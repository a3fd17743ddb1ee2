package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/sqlite"
)

// storeName is where a store is: the path of a SQLite file, or the URL of a PostgreSQL database.
type storeName struct {
	// path is absolute; empty for a database.
	path string
	// url is that of the database; it can hold a password.
	url string
}

// parseStore reads a store's name as it is given on the command line or in the configuration; env:NAME is the URL or path in that
// variable.
func parseStore(c *terminal, name string) (storeName, error) {
	if variable, ok := strings.CutPrefix(name, "env:"); ok {
		value, set := c.env(variable)
		if !set || value == "" {
			return storeName{}, invalid("store", "the environment variable "+variable+" is not set", "set it to the store's URL or path")
		}
		name = value
	}
	if strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://") {
		return storeName{url: name}, nil
	}
	if scheme, _, ok := strings.Cut(name, "://"); ok {
		return storeName{}, invalid("store", "is of a kind that is not known: "+scheme, "use postgres://user@host:port/database, or the path of a SQLite file")
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return storeName{}, fmt.Errorf("the store's path: %w", err)
	}
	return storeName{path: path}, nil
}

// String is the name without secrets.
func (n storeName) String() string {
	if n.url == "" {
		return n.path
	}
	return postgres.Name(n.url)
}

// missing says why there is nothing to open: a file that is not there. A database is asked when it is opened.
func (n storeName) missing() error {
	if n.path == "" {
		return nil
	}
	_, err := os.Stat(n.path)
	return err
}

// open opens the store and brings its schema up to date.
func (n storeName) open(ctx context.Context) (effectonce.Store, error) {
	return n.openWith(ctx, postgres.Options{})
}

// look opens the store without changing a database's schema.
func (n storeName) look(ctx context.Context) (effectonce.Store, error) {
	return n.openWith(ctx, postgres.Options{SchemaAsItIs: true})
}

func (n storeName) openWith(ctx context.Context, o postgres.Options) (effectonce.Store, error) {
	if n.url != "" {
		s, err := postgres.Open(ctx, n.url, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := sqlite.Open(ctx, n.path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// documents finds policy versions in the store (S3.11).
func documents(store effectonce.Store) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, version string) ([]byte, error) {
		digest, err := canon.ParseDigest(version)
		if err != nil {
			return nil, fmt.Errorf("policy version %.80q: %w", version, err)
		}
		return store.Document(ctx, digest)
	}
}
