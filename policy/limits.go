package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// limit is a declared limit, compiled.
type limit struct {
	text   string // the name's template as it was written
	name   *template
	amount number
	max    number
	per    time.Duration
}

// number is a whole number of the policy's, or what a placeholder of a call holds.
type number struct {
	fixed       int64
	placeholder string
}

func (c *compiler) limits(spec Spec) {
	if len(spec.Limits) > 0 && spec.Class == effectonce.ClassReadOnly {
		c.add("a read-only tool takes nothing from a limit", "leave limits out", "limits")
		return
	}
	if len(spec.Limits) > effectonce.LimitsMax {
		c.add(fmt.Sprintf("has more than %d limits", effectonce.LimitsMax), "use fewer", "limits")
		return
	}
	type key struct {
		name string
		per  Duration
	}
	seen := map[key]bool{}
	for i, l := range spec.Limits {
		path := func(field ...string) []string { return append([]string{"limits", strconv.Itoa(i)}, field...) }
		if seen[key{l.Name, l.Per}] {
			c.add("is there twice", "give each limit once", path("name")...)
		}
		seen[key{l.Name, l.Per}] = true
		if l.Name == "" {
			c.add("is missing", "name what is limited, like refunds:payment:{payment_intent}", path("name")...)
		}
		if l.Per.Std()%time.Second != 0 {
			c.add("must be whole seconds", "leave it out for a total without periods", path("per")...)
		}
		compiled := limit{text: l.Name, name: c.name(path("name"), l.Name, KindIdentity, KindMaterial), per: l.Per.Std(), amount: number{fixed: 1}}
		if l.Amount != "" {
			compiled.amount = c.number(l.Amount, 1, path("amount"))
		}
		if l.Max == "" {
			c.add("is missing", "give the most that all may take together", path("max")...)
		} else {
			compiled.max = c.number(l.Max, 0, path("max"))
		}
		c.oneCurrency(compiled, path)
		c.tool.limits = append(c.tool.limits, compiled)
	}
}

// number compiles amount or max.
func (c *compiler) number(text string, least int64, path []string) number {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < least || n > effectonce.LimitValueMax {
			c.add(fmt.Sprintf("must be between %d and 2^52", least), "give a whole number, of minor units for money", path...)
		}
		return number{fixed: n}
	}
	t, err := parseTemplate(text)
	if err != nil || len(t.names) != 1 || strings.Join(t.literals, "") != "" {
		c.add(fmt.Sprintf("%.80q is neither a whole number nor one placeholder", text), "write 50000, {amount.minor}, {count} or {meta.name}", path...)
		return number{}
	}
	name := t.names[0]
	c.placeholder(path, name, []Kind{KindMaterial, KindIdentity})
	if ref, a := c.tool.resolve(name); a != nil && a.amount != nil && ref.part != "minor" && ref.part != "" {
		c.add(fmt.Sprintf("{%s} is no whole number", name), "write {"+ref.argument+".minor}", path...)
	}
	return number{placeholder: name}
}

// money returns the amount that a number is the minor units of; nil for other numbers.
func (c *compiler) money(n number) *Amount {
	if n.placeholder == "" {
		return nil
	}
	if _, a := c.tool.resolve(n.placeholder); a != nil {
		return a.amount
	}
	return nil
}

// oneCurrency refuses a total that would add up different currencies, or be compared with another one.
func (c *compiler) oneCurrency(l limit, path func(...string) []string) {
	taken, most := c.money(l.amount), c.money(l.max)
	if taken != nil && most != nil && (taken.Currency != most.Currency || taken.Code != most.Code) {
		c.add(fmt.Sprintf("{%s} and {%s} can be in different currencies", l.amount.placeholder, l.max.placeholder), "give both the same currency", path("max")...)
		return
	}
	if taken == nil || taken.Currency == "" || l.name == nil {
		return
	}
	argument, ok := c.tool.arguments[taken.Currency]
	if !ok || len(argument.oneOf) == 1 {
		return
	}
	named := slices.ContainsFunc(l.name.names, func(name string) bool {
		ref, _ := c.tool.resolve(name)
		return ref.argument == taken.Currency || name == strings.TrimSuffix(l.amount.placeholder, ".minor")+".currency"
	})
	if !named {
		c.add("adds up amounts of different currencies", fmt.Sprintf("put {%s} into the name, or allow one currency only: one_of: [EUR]", taken.Currency), path("name")...)
	}
}

// limits are the totals that a call counts against.
func (r *reader) limits() ([]effectonce.Limit, error) {
	var out []effectonce.Limit
	for _, l := range r.tool.limits {
		name, err := r.render(l.name)
		if err != nil {
			return nil, err
		}
		amount, err := r.number(l.amount, 1, name)
		if err != nil {
			return nil, err
		}
		most, err := r.number(l.max, 0, name)
		if err != nil {
			return nil, err
		}
		out = append(out, effectonce.Limit{Name: name, Amount: amount, Max: most, Per: l.per})
	}
	return out, nil
}

var wholeOf = mustNormaliser("integer")

// number reads a whole number out of a call. What cannot be read for certain is refused: to guess would be to count wrongly.
func (r *reader) number(n number, least int64, limit string) (int64, error) {
	if n.placeholder == "" {
		return n.fixed, nil
	}
	field, v, err := r.value(n.placeholder)
	if err != nil {
		return 0, err
	}
	refuse := func(detail string) error {
		return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: fmt.Sprintf("%s, and the limit %s counts by it", detail, limit),
			Remedy: fmt.Sprintf("give a whole number from %d to 2^52", least)}
	}
	if v == nil {
		return 0, refuse("is missing")
	}
	if minor, ok := v.(int64); ok {
		v = json.Number(strconv.FormatInt(minor, 10))
	}
	whole, err := wholeOf.Normalise(v)
	if err != nil {
		return 0, refuse("is no whole number")
	}
	text, err := canon.Encode(whole)
	if err != nil {
		return 0, refuse("is no whole number")
	}
	i, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || i < least || i > effectonce.LimitValueMax {
		return 0, refuse(fmt.Sprintf("is %.40s", text))
	}
	return i, nil
}
