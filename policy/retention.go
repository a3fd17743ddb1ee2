package policy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// retention checks how long identities are kept. That the time is long enough is for whoever knows the terms whole: see [Tool.Horizon].
func (c *compiler) retention(spec Spec) {
	id := spec.Retention.Identity
	if id == nil {
		if spec.Retention.Run > 0 {
			c.add("says how long a run may last, and identities are kept for ever", "leave it out, or give identity: {for: ..., period: ...}", "retention", "run")
		}
		return
	}
	path := []string{"retention", "identity"}
	if id.For <= 0 {
		c.add("is missing", "say how long an identity is kept after its period is over", append(path, "for")...)
	} else if spec.Retention.Result > id.For {
		c.add(fmt.Sprintf("is longer than identities are kept (%s)", written(id.For.Std())), "shorten it, or raise identity.for", "retention", "result")
	}
	path = append(path, "period")
	if id.Period == "" {
		c.add("is missing", "name what in intent_id is the business period, like {month}", path...)
		return
	}
	if c.tool.intentID == nil {
		if !c.saidOf("intent_id") {
			c.add("needs an intent_id that holds the period", "build the intent id from the arguments: without its period a forgotten intent cannot be refused", path...)
		}
		return
	}
	t, err := parseTemplate(id.Period)
	if err != nil {
		c.add(err.Error(), "write {month}", path...)
		return
	}
	if len(t.names) == 0 {
		c.add("has no placeholder, so there is only one period", "name what in intent_id is the business period, like {month}", path...)
	}
	for _, name := range t.names {
		if !slices.Contains(c.tool.intentID.names, name) {
			c.add(fmt.Sprintf("{%.80s} is not in intent_id: a call of an old period could not be told from a new one", name), "put it into intent_id, or use a placeholder that is there", path...)
		}
	}
	c.tool.period = &t
}

// forgetAt is when the identity of a call ends, zero for never.
func (r *reader) forgetAt(period *template) (time.Time, error) {
	if period == nil {
		return time.Time{}, nil
	}
	var text strings.Builder
	at := ""
	for i, literal := range period.literals {
		text.WriteString(literal)
		if i == len(period.names) {
			break
		}
		field, v, err := r.value(period.names[i])
		if err != nil {
			return time.Time{}, err
		}
		at = firstOf(at, field)
		switch v := v.(type) {
		case string:
			text.WriteString(v)
		case json.Number:
			text.WriteString(v.String())
		}
	}
	end, ok := endOfPeriod(text.String())
	if !ok {
		return time.Time{}, &effectonce.Error{Code: effectonce.CodeInvalid, Field: at, Detail: fmt.Sprintf("gives the period %.40q, which is no day, month, quarter or year", text.String()),
			Remedy: "give it like 2026-11-30, 2026-11, 2026-Q4 or 2026"}
	}
	return end.Add(r.tool.spec.Retention.Identity.For.Std()), nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

var periodForm = regexp.MustCompile(`^([0-9]{4})(?:-(?:Q([1-4])|([0-9]{2})(?:-([0-9]{2}))?))?$`)

// endOfPeriod is the moment in UTC at which a day, month, quarter or year is over.
func endOfPeriod(s string) (time.Time, bool) {
	m := periodForm.FindStringSubmatch(s)
	if m == nil {
		return time.Time{}, false
	}
	number := func(s string) int {
		n, _ := strconv.Atoi(s)
		return n
	}
	year, quarter, month, day := number(m[1]), number(m[2]), number(m[3]), number(m[4])
	switch {
	case m[4] != "":
		start := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
		// A date that does not exist would be taken for a later one.
		return start.AddDate(0, 0, 1), start.Format(time.DateOnly) == s
	case m[3] != "":
		return time.Date(year, time.Month(month)+1, 1, 0, 0, 0, 0, time.UTC), month >= 1 && month <= 12
	case m[2] != "":
		return time.Date(year, time.Month(3*quarter)+1, 1, 0, 0, 0, 0, time.UTC), true
	}
	return time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC), true
}

// Horizon is the least time for which identities must be kept after their period, by the tool's full terms, and the sum that it is:
// until then a call of that period can still come again (S13.2).
func (t *Tool) Horizon(terms effectonce.Terms) (least time.Duration, sum string) {
	run := t.spec.Retention.Run
	if run == 0 {
		run = DefaultRun
	}
	parts := []struct {
		name string
		d    time.Duration
	}{{"retention.run", run.Std()}, {"expiry", terms.Expiry}, {"retry.within", terms.Within}, {"call.timeout", terms.CallTimeout}, {"settle", terms.WindowMargin()}}
	if terms.Keyed && !terms.Forever {
		parts = append(parts, struct {
			name string
			d    time.Duration
		}{"the provider's memory of a key", terms.Retention})
	}
	if terms.LookUp {
		parts = append(parts, struct {
			name string
			d    time.Duration
		}{"the look-up's lag", terms.Lag})
	}
	var words []string
	for _, p := range parts {
		if p.d > 0 {
			least += p.d
			words = append(words, p.name+" "+written(p.d))
		}
	}
	return least, strings.Join(words, " + ") + " = " + written(least)
}

// written is a duration as policies write it: 30d, 1d12h, 2m30s.
func written(d time.Duration) string {
	const day = 24 * time.Hour
	s := ""
	if d >= day {
		s, d = strconv.FormatInt(int64(d/day), 10)+"d", d%day
	}
	if d > 0 || s == "" {
		rest := d.String()
		if strings.HasSuffix(rest, "m0s") {
			rest = strings.TrimSuffix(rest, "0s")
		}
		if strings.HasSuffix(rest, "h0m") {
			rest = strings.TrimSuffix(rest, "0m")
		}
		s += rest
	}
	return s
}
