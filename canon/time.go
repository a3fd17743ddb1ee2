package canon

import (
	"regexp"
	"strings"
	"time"
)

// rfc3339 is stricter than time.Parse, which takes a comma for the point and one digit for an hour.
var (
	rfc3339   = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	naiveTime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?$`)
	dateOnly  = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
)

const fractionDigitsMax = 9

// instant normalises a point in time to UTC.
func instant(s string) (any, error) {
	switch {
	case dateOnly.MatchString(s):
		return nil, notNormalisable("a day where a point in time is needed", "send a time with its offset, or normalise it as date")
	case naiveTime.MatchString(s):
		return nil, notNormalisable(
			"a time without an offset, which is another moment in every zone",
			"add Z or an offset, as in 2026-11-30T14:00:00+01:00")
	case !rfc3339.MatchString(s):
		return nil, notNormalisable("not an RFC 3339 time", "send it like 2026-11-30T14:00:00Z")
	}
	s, ok := shortFraction(strings.ToUpper(s))
	if !ok {
		return nil, notNormalisable("a time finer than nanoseconds", "send at most nine digits of a second")
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return nil, notNormalisable("no moment of the calendar", "send a date, a time below 24:00 without leap second and an offset that exist")
	}
	t = t.UTC()
	if t.Year() < 0 || t.Year() > 9999 {
		return nil, notNormalisable("a time outside the years 0000 to 9999 in UTC", "send a year of four digits")
	}
	return t.Format(time.RFC3339Nano), nil
}

// shortFraction removes the zeros at the end of a fraction, and reports whether nanoseconds can hold the rest: time.Parse
// would drop further digits without a word.
func shortFraction(s string) (string, bool) {
	point := strings.IndexByte(s, '.')
	if point < 0 {
		return s, true
	}
	end := point + 1
	for isDigit(s[end]) {
		end++
	}
	fraction := strings.TrimRight(s[point+1:end], "0")
	if fraction == "" {
		return s[:point] + s[end:], true
	}
	return s[:point+1] + fraction + s[end:], len(fraction) <= fractionDigitsMax
}

// date normalises a day.
func date(s string) (any, error) {
	if !dateOnly.MatchString(s) {
		return nil, notNormalisable("not a date", "send a day like 2026-11-30, without a time")
	}
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return nil, notNormalisable("no day of the calendar", "send a day that exists")
	}
	return s, nil
}
