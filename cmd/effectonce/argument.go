package main

import (
	"io"
	"os"
	"strings"

	"github.com/effectonce/effectonce"
)

// argumentBytesMax bounds what is read from a file or standard input.
const argumentBytesMax = 1 << 20

// readArgument reads what a flag stands for: the text itself, @file, or - for standard input.
func readArgument(c *terminal, field, text string) ([]byte, error) {
	source := io.Reader(strings.NewReader(text))
	switch {
	case text == "-":
		source = c.in
	case strings.HasPrefix(text, "@"):
		f, err := os.Open(text[1:])
		if err != nil {
			return nil, invalid(field, "cannot be read: "+err.Error(), "name a file after @, or give the JSON itself")
		}
		defer f.Close()
		source = f
	}
	b, err := io.ReadAll(io.LimitReader(source, argumentBytesMax+1))
	if err != nil {
		return nil, invalid(field, "cannot be read: "+err.Error(), "name a readable file after @")
	}
	if len(b) > argumentBytesMax {
		return nil, &effectonce.Error{Code: effectonce.CodeTooLarge, Field: field, Detail: "is larger than 1 MiB", Remedy: "give less"}
	}
	return b, nil
}
