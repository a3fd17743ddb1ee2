package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// allowedMax bounds one_of.
const allowedMax = 500

// allow compiles an argument's one_of. Each value is checked to be one that a call can have after the normalisers: a list
// with "eur" behind upper would refuse every call.
func (c *compiler) allow(name string, given Argument) {
	if len(given.OneOf) == 0 {
		return
	}
	a, path := c.tool.arguments[name], []string{"arguments", name, "one_of"}
	switch {
	case a.kind == KindFree:
		c.add("a free argument is neither compared nor sent, so its values do not matter", "leave one_of out, or make it material", path...)
		return
	case a.amount != nil:
		c.add("an amount is not one of a list", "leave one_of out", path...)
		return
	case len(given.OneOf) > allowedMax:
		c.add(fmt.Sprintf("has more than %d values", allowedMax), "use capture with a pattern", path...)
		return
	}
	for _, raw := range given.OneOf {
		text, problem := a.allowable(raw)
		if problem == nil && slices.Contains(a.oneOf, text) {
			problem = &canon.Error{Detail: text + " is named twice", Remedy: "name it once"}
		}
		if problem != nil {
			c.add(problem.Detail, problem.Remedy, path...)
			continue
		}
		a.oneOf = append(a.oneOf, text)
	}
	a.why += "; allowed are " + a.choices()
}

// allowable returns a value of one_of in canonical form.
func (a *argument) allowable(raw []byte) (string, *canon.Error) {
	const kinds = "use text, numbers, true or false"
	v, err := canon.Decode(raw, canon.DefaultLimits)
	if err == nil {
		v, err = canon.NFC(v)
	}
	if err != nil {
		return "", &canon.Error{Detail: fmt.Sprintf("%.40q has no canonical form: %v", raw, err), Remedy: kinds}
	}
	switch v.(type) {
	case nil, []any, map[string]any:
		return "", &canon.Error{Detail: fmt.Sprintf("%.40s is no single value", raw), Remedy: kinds}
	}
	text, err := canon.Encode(v)
	if err != nil {
		return "", &canon.Error{Detail: fmt.Sprintf("%.40q has no canonical form: %v", raw, err), Remedy: kinds}
	}
	if a.captures {
		// What a pattern takes out of a text need not match it again: only its type is known.
		if _, ok := v.(string); !ok {
			return "", &canon.Error{Detail: fmt.Sprintf("%.40s is never what capture leaves", text), Remedy: "write text, in quotes"}
		}
		return string(text), nil
	}
	normal, err := a.normalise(v, "")
	if err != nil {
		return "", &canon.Error{Detail: fmt.Sprintf("%.40s is refused by the normalisers: %v", text, err), Remedy: "write the values as the normalisers leave them"}
	}
	if again, err := canon.Encode(normal); err != nil || string(again) != string(text) {
		return "", &canon.Error{Detail: fmt.Sprintf("%.40s is never what the normalisers leave", text), Remedy: fmt.Sprintf("write %.40s", again)}
	}
	return string(text), nil
}

// allowed refuses a normalised value that is none of the policy's.
func (a *argument) allowed(field string, normal any) error {
	if len(a.oneOf) == 0 {
		return nil
	}
	text, err := canon.Encode(normal)
	if err != nil {
		return fieldError(field, err)
	}
	if slices.Contains(a.oneOf, string(text)) {
		return nil
	}
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: "is none of the values that the policy allows", Remedy: "use one of " + a.choices()}
}

// choices lists the allowed values for people.
func (a *argument) choices() string {
	const shown = 20
	if more := len(a.oneOf) - shown; more > 0 {
		return strings.Join(a.oneOf[:shown], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(a.oneOf, ", ")
}
