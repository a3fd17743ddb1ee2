package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// What a compensation's templates see besides arguments.
const (
	seesResult    = "result"    // {result.id}: what the provider answered
	seesReference = "reference" // the provider's id of what was created
	seesKey       = "key"       // the key of the operation
	seesArgument  = "argument." // {argument.key}: an argument that is called like one of the others
)

func (c *compiler) compensate(spec Spec) {
	s := spec.Compensate
	if s == nil {
		return
	}
	if spec.Class == effectonce.ClassReadOnly {
		c.add("a read-only tool has nothing to undo", "leave it out", "compensate")
	}
	if s.Tool == "" {
		c.add("is missing", "name the tool that undoes the effect", "compensate", "tool")
	}
	tree, err := compensation(s.Arguments)
	if err != nil {
		c.add(err.Error(), "write arguments as name: value", "compensate", "arguments")
		return
	}
	texts(tree, []string{"compensate", "arguments"}, func(path []string, text string) {
		t, err := parseTemplate(text)
		if err != nil {
			c.add(err.Error(), "write placeholders as {argument}, {result.id}, {reference} or {key}", path...)
			return
		}
		for _, name := range t.names {
			c.compensationSees(path, strings.TrimSuffix(name, "?"), len(t.names) == 1 && strings.Join(t.literals, "") == "")
		}
	})
}

// compensation decodes the arguments of a compensation.
func compensation(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	v, err := canon.Decode(raw, canon.DefaultLimits)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("are no map")
	}
	return tree, nil
}

// texts calls f for every text in a tree of JSON values, in the order of names.
func texts(v any, path []string, f func(path []string, text string)) {
	inner := func(name string) []string { return append(slices.Clone(path), name) }
	switch v := v.(type) {
	case string:
		f(path, v)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			texts(v[name], inner(name), f)
		}
	case []any:
		for i, child := range v {
			texts(child, inner(strconv.Itoa(i)), f)
		}
	}
}

// compensationSees checks a placeholder; alone says that nothing else is in the text.
func (c *compiler) compensationSees(path []string, name string, alone bool) {
	argument, explicit := strings.CutPrefix(name, seesArgument)
	first, _, _ := strings.Cut(name, ".")
	if !explicit && (name == seesKey || name == seesReference || first == seesResult) {
		if a, declared := c.tool.arguments[first]; declared && a.kind != KindFree {
			c.add(fmt.Sprintf("{%s} is both an argument and the operation's %s", name, first), "write {"+seesArgument+name+"} for the argument, or take the argument's name out of the policy", path...)
		}
		return
	}
	if detail, remedy := c.tool.reference(argument); detail != "" {
		if strings.HasPrefix(name, metaPrefix) {
			detail, remedy = fmt.Sprintf("{%.80s} is metadata of the call, which is not kept with its operation", name), "use an argument, {result.id}, {reference} or {key}"
		}
		c.add(detail, remedy, path...)
		return
	}
	if ref, a := c.tool.resolve(argument); a != nil && a.amount != nil && ref.part == "" && !alone {
		c.add(fmt.Sprintf("{%s} is an amount, which is no part of a text", name), "write {"+argument+".minor} or {"+argument+".decimal}", path...)
	}
}

// CheckCompensation returns what is wrong with the policy's compensation, given the tool that it names.
func (t *Tool) CheckCompensation(by *Tool) []Problem {
	s := t.spec.Compensate
	if s == nil || by == nil {
		return nil
	}
	tree, err := compensation(s.Arguments)
	if err != nil {
		return nil
	}
	var problems []Problem
	add := func(detail, remedy string, path ...string) {
		problems = append(problems, Problem{Path: append([]string{"compensate"}, path...), Detail: detail, Remedy: remedy})
	}
	if by.spec.Class == effectonce.ClassReadOnly {
		add(fmt.Sprintf("%s is read_only, and undoing is an effect", by.Name), "name a tool that has the effect", "tool")
	}
	for _, name := range by.needed() {
		v, given := tree[name]
		if text, ok := v.(string); !given || ok && strings.HasSuffix(text, "?}") {
			add(fmt.Sprintf("%s needs the argument %s, which is not certainly given", by.Name, name), "give it, such as {result.id}, {reference} or an argument of this tool", "arguments", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if by.dropped(name) {
			add(fmt.Sprintf("%s drops the argument %s", by.Name, name), "leave it out", "arguments", name)
		}
		text, _ := tree[name].(string)
		if a := t.wholeAmount(text); a != nil && by.amountOf(name) == nil {
			amount := strings.Trim(text, "{?}")
			add(fmt.Sprintf("%s is an amount, and the argument %s of %s is none", text, name, by.Name), fmt.Sprintf("write {%s.minor} or {%s.decimal}, whichever it takes", amount, amount), "arguments", name)
		}
	}
	return problems
}

// needed lists the arguments without which every call is refused.
func (t *Tool) needed() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(t.arguments)) {
		a := t.arguments[name]
		if a.def == nil && (a.required || a.kind == KindIdentity) {
			names = append(names, name)
		}
	}
	return names
}

func (t *Tool) amountOf(name string) *Amount {
	if a, ok := t.arguments[name]; ok {
		return a.amount
	}
	return nil
}

// wholeAmount returns the amount that a text stands for as a whole: {amount} and nothing else.
func (t *Tool) wholeAmount(text string) *Amount {
	parsed, err := parseTemplate(text)
	if err != nil || len(parsed.names) != 1 || strings.Join(parsed.literals, "") != "" {
		return nil
	}
	return t.amountOf(strings.TrimPrefix(strings.TrimSuffix(parsed.names[0], "?"), seesArgument))
}

// Compensation makes the arguments of the call by which by, the tool of the policy's compensation, undoes op. Every error is an
// *[effectonce.Error] that names what is missing.
func (t *Tool) Compensation(op effectonce.Operation, by *Tool) (json.RawMessage, error) {
	tree, err := compensation(t.spec.Compensate.Arguments)
	if err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeInternal, Field: "compensate", Cause: err}
	}
	if !op.PurgedAt.IsZero() {
		return nil, &effectonce.Error{Code: effectonce.CodeNotAllowed, Key: op.Key, Field: "compensate", Detail: "its arguments and result were purged", Remedy: "undo it by hand; retention.result says how long they are kept"}
	}
	u := undoing{tool: t, by: by, op: op}
	if err := u.read(); err != nil {
		return nil, err
	}
	args := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		v, present, err := u.fill(tree[name], name, name)
		if err != nil {
			return nil, err
		}
		if present {
			args[name] = v
		}
	}
	b, err := canon.Encode(args)
	if err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "compensate.arguments", Cause: err}
	}
	return b, nil
}

// undoing fills the templates of one compensation.
type undoing struct {
	tool, by  *Tool
	op        effectonce.Operation
	arguments map[string]any
	result    any
}

func (u *undoing) read() error {
	v, err := canon.Decode(u.op.Business, canon.DefaultLimits)
	if err != nil {
		return &effectonce.Error{Code: effectonce.CodeInternal, Key: u.op.Key, Field: "arguments", Cause: err}
	}
	u.arguments, _ = v.(map[string]any)
	if len(bytes.TrimSpace(u.op.Result)) > 0 {
		// A result that is not kept, or cannot be read, holds nothing: whoever needs a part of it is told.
		u.result, _ = canon.Decode(u.op.Result, canon.Limits{Bytes: effectonce.ResultBytesMax})
	}
	return nil
}

// fill replaces the templates in a value; argument is the name of the compensating tool's argument that it becomes.
func (u *undoing) fill(v any, argument, at string) (filled any, present bool, err error) {
	switch v := v.(type) {
	case string:
		return u.text(v, argument, at)
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			child, present, err := u.fill(v[name], "", at+"."+name)
			if err != nil {
				return nil, false, err
			}
			if present {
				out[name] = child
			}
		}
		return out, true, nil
	case []any:
		out := []any{}
		for i, item := range v {
			child, present, err := u.fill(item, "", at+"."+strconv.Itoa(i))
			if err != nil {
				return nil, false, err
			}
			if present {
				out = append(out, child)
			}
		}
		return out, true, nil
	}
	return v, true, nil
}

func (u *undoing) text(text, argument, at string) (any, bool, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, false, &effectonce.Error{Code: effectonce.CodeInternal, Field: "compensate.arguments." + at, Cause: err}
	}
	var b strings.Builder
	for i, literal := range t.literals {
		b.WriteString(literal)
		if i == len(t.names) {
			break
		}
		name, optional := strings.CutSuffix(t.names[i], "?")
		v := u.value(name, argument)
		if v == nil {
			if optional {
				return nil, false, nil
			}
			return nil, false, &effectonce.Error{Code: effectonce.CodeInvalid, Key: u.op.Key, Field: "compensate.arguments." + at,
				Detail: fmt.Sprintf("needs {%s}, which the operation does not have", name), Remedy: "undo it by hand, or correct the template"}
		}
		if len(t.names) == 1 && strings.Join(t.literals, "") == "" {
			return v, true, nil
		}
		switch v := v.(type) {
		case string:
			b.WriteString(v)
		case json.Number, bool, int64:
			fmt.Fprint(&b, v)
		default:
			return nil, false, &effectonce.Error{Code: effectonce.CodeInvalid, Key: u.op.Key, Field: "compensate.arguments." + at,
				Detail: fmt.Sprintf("{%s} is no text, number or boolean", name), Remedy: "let the placeholder stand alone"}
		}
	}
	return b.String(), true, nil
}

// value is what a placeholder stands for, nil for nothing.
func (u *undoing) value(name, argument string) any {
	own, explicit := strings.CutPrefix(name, seesArgument)
	first, rest, _ := strings.Cut(name, ".")
	switch {
	case explicit:
	case name == seesKey:
		return u.op.Key.String()
	case name == seesReference && u.op.Reference == "":
		return nil
	case name == seesReference:
		return u.op.Reference
	case first == seesResult:
		return at(u.result, rest)
	}
	if a := u.tool.amountOf(own); a != nil {
		part := "decimal"
		if by := u.by.amountOf(argument); by != nil && by.Unit == string(canon.UnitMinor) {
			part = "minor"
		}
		own += "." + part
	}
	if ref, a := u.tool.resolve(own); a != nil && a.amount != nil {
		return amountPart(u.arguments[ref.argument], ref.part)
	}
	if v, ok := u.arguments[own]; ok {
		return v
	}
	return at(u.arguments, own)
}

// at follows a path of names and indexes.
func at(v any, path string) any {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		switch node := v.(type) {
		case map[string]any:
			v = node[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

// amountPart reads a part of an amount out of business arguments.
func amountPart(v any, part string) any {
	amount, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	code, _ := amount["currency"].(string)
	minor, err := strconv.ParseInt(fmt.Sprint(amount["minor"]), 10, 64)
	_, exponent, unknown := canon.Currency(code)
	if err != nil || unknown != nil {
		return nil
	}
	switch part {
	case "currency":
		return code
	case "minor":
		return minor
	}
	return canon.AmountValue{Minor: minor, Currency: code, Exponent: exponent}.Decimal()
}
