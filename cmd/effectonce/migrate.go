package main

import (
	"context"

	"github.com/effectonce/effectonce/store/postgres"
)

type migrateCommand struct {
	Config string `placeholder:"FILE" help:"The configuration; effectonce.yaml in the current directory if it exists."`
	Store  string `placeholder:"STORE" help:"The SQLite file, a PostgreSQL URL or env:NAME; else what the configuration says, else effectonce.db in the current directory."`
}

// Help implements kong.HelpProvider.
func (migrateCommand) Help() string {
	return `The daemon does this by itself at its start. The command is for a database whose schema the daemon's role may not change, and for
doing it before a roll-out. It can be repeated, and several may run at once. A schema of a newer version is refused.`
}

// migrated is the answer with --json. From and To are versions of the schema, for PostgreSQL.
type migrated struct {
	Store string `json:"store"`
	*postgres.Migration
}

// Run brings the store's schema up to date.
func (m *migrateCommand) Run(ctx context.Context, c *terminal) error {
	name := m.Store
	if name == "" || m.Config != "" {
		cfg, err := loadConfig(c, m.Config)
		if err != nil {
			return err
		}
		name = firstOf(name, cfg.Store)
	}
	where, err := parseStore(c, name)
	if err != nil {
		return err
	}
	answer := migrated{Store: where.String()}
	if where.url != "" {
		did, err := postgres.Migrate(ctx, where.url)
		if err != nil {
			return err
		}
		answer.Migration = &did
	} else {
		// Opening a file brings its schema up to date.
		store, err := where.open(ctx)
		if err != nil {
			return err
		}
		if err := store.Close(); err != nil {
			return err
		}
	}
	if c.json {
		return c.show(answer)
	}
	if did := answer.Migration; did != nil && did.From != did.To {
		c.say("%s: the schema went from version %d to %d.", answer.Store, did.From, did.To)
		return nil
	}
	c.say("%s: the schema is up to date.", answer.Store)
	return nil
}
