package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/effectonce/effectonce/config"
)

// configFile is used from the current directory if it exists and no other is named.
const configFile = "effectonce.yaml"

// loadConfig reads the configuration file that is named, or else effectonce.yaml if there is one. Without a file it is the
// configuration of an empty one, and File is empty.
func loadConfig(c *terminal, file string) (*config.Config, error) {
	named := file != ""
	if !named {
		file = configFile
	}
	data, err := os.ReadFile(file)
	switch {
	case err == nil:
		return config.Parse(file, data, c.env)
	case named || !errors.Is(err, fs.ErrNotExist):
		return nil, invalid("config", "cannot be read: "+err.Error(), "name a readable file with --config")
	}
	cfg, err := config.Parse("", nil, c.env)
	if err == nil {
		cfg.File = ""
	}
	return cfg, err
}
