package main

import (
	"strings"
	"time"
	"unicode"
)

// printed makes text that a model or a stranger wrote safe for a terminal: control characters are shown, not obeyed.
func printed(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// short cuts text to at most n characters, for a column.
func short(s string, n int) string {
	s = printed(s)
	if s == "" {
		return "-"
	}
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

// clock is a moment for a person.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
