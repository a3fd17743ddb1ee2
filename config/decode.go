package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/policy"
)

// check collects the problems of one file while it is read.
type check struct {
	file     string
	root     *node
	problems Problems
}

// problemsMax bounds a report; whoever has more corrects these first.
const problemsMax = 200

func (c *check) at(n *node, field, detail, remedy string) {
	if len(c.problems) >= problemsMax {
		return
	}
	c.problems = append(c.problems, Problem{File: c.file, Line: n.line, Column: n.column, Field: field, Detail: detail, Remedy: remedy})
}

// on reports a problem at a path of the file.
func (c *check) on(path []string, detail, remedy string) {
	c.at(c.root.nearest(path), field(path), detail, remedy)
}

// has reports whether there is a problem at or below a path, so that no other one is reported that only follows from it.
func (c *check) has(path ...string) bool {
	prefix := field(path)
	return slices.ContainsFunc(c.problems, func(p Problem) bool {
		return p.Field == prefix || strings.HasPrefix(p.Field, prefix+".")
	})
}

// hasExactly reports whether there is a problem at a path itself.
func (c *check) hasExactly(path ...string) bool {
	return slices.ContainsFunc(c.problems, func(p Problem) bool { return p.Field == field(path) })
}

// custom is a value of a file that reads itself.
type custom interface {
	decode(c *check, n *node, path []string)
}

var (
	customType   = reflect.TypeFor[custom]()
	durationType = reflect.TypeFor[policy.Duration]()
	rawType      = reflect.TypeFor[json.RawMessage]()
)

// decode reads a node into what v points to. Every problem is reported and nothing else happens: an absent or wrong value
// stays zero.
func (c *check) decode(n *node, v reflect.Value, path []string) {
	if n.shape == shapeNull {
		return
	}
	if v.Addr().Type().Implements(customType) {
		v.Addr().Interface().(custom).decode(c, n, path)
		return
	}
	switch v.Type() {
	case durationType:
		c.duration(n, v, path)
		return
	case rawType:
		if raw := c.raw(n, path); raw != nil {
			v.SetBytes(raw)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		c.decode(n, v.Elem(), path)
	case reflect.Struct:
		c.object(n, v, path)
	case reflect.Map:
		c.table(n, v, path)
	case reflect.Slice:
		c.list(n, v, path)
	case reflect.String:
		if c.is(n, shapeText, path) {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if c.is(n, shapeBool, path) {
			v.SetBool(n.text == "true")
		}
	case reflect.Int:
		c.integer(n, v, path)
	default:
		panic("config: no way to read a " + v.Type().String())
	}
}

func (c *check) is(n *node, want shape, path []string) bool {
	if n.shape == want {
		return true
	}
	remedy := map[shape]string{
		shapeText: "write text", shapeBool: "write true or false", shapeNumber: "write a number",
		shapeMap: "write name: value", shapeList: "write [a, b] or lines that start with -",
	}[want]
	if want == shapeText {
		switch n.shape {
		case shapeNumber, shapeBool, shapeMap, shapeList:
			remedy = "put it in quotes if it is meant as text"
		}
	}
	c.at(n, field(path), "is "+n.shape.String()+" where "+want.String()+" is needed", remedy)
	return false
}

func (c *check) integer(n *node, v reflect.Value, path []string) {
	if !c.is(n, shapeNumber, path) {
		return
	}
	i, err := strconv.ParseInt(n.text, 10, 32)
	if err != nil {
		c.at(n, field(path), "is not a whole number", "write digits only")
		return
	}
	v.SetInt(i)
}

func (c *check) duration(n *node, v reflect.Value, path []string) {
	const remedy = "write a duration such as 30s, 5m, 24h or 30d"
	if n.shape == shapeNumber {
		c.at(n, field(path), "is a number without a unit", remedy)
		return
	}
	if !c.is(n, shapeText, path) {
		return
	}
	d, err := policy.ParseDuration(n.text)
	if err != nil {
		c.at(n, field(path), err.Error(), remedy)
		return
	}
	v.SetInt(int64(d))
}

// raw turns a node into JSON. It returns nil after a problem.
func (c *check) raw(n *node, path []string) json.RawMessage {
	if !c.numbers(n, path) {
		return nil
	}
	b, err := json.Marshal(n.json())
	if err != nil {
		c.at(n, field(path), "cannot be written as JSON", "use plain values")
		return nil
	}
	return b
}

// numbers refuses numbers that are YAML's and not JSON's.
func (c *check) numbers(n *node, path []string) bool {
	ok := true
	switch n.shape {
	case shapeNumber:
		if !json.Valid([]byte(n.text)) {
			c.at(n, field(path), "is a number that JSON does not have", "write it in decimal, or in quotes as text")
			return false
		}
	case shapeMap:
		for _, e := range n.entries {
			ok = c.numbers(e.value, join(path, e.name)) && ok
		}
	case shapeList:
		for i, item := range n.items {
			ok = c.numbers(item, join(path, strconv.Itoa(i))) && ok
		}
	}
	return ok
}

func join(path []string, names ...string) []string {
	return append(path[:len(path):len(path)], names...)
}

func (c *check) object(n *node, v reflect.Value, path []string) {
	if !c.is(n, shapeMap, path) {
		return
	}
	names := map[string]int{}
	for i := range v.NumField() {
		names[v.Type().Field(i).Tag.Get("yaml")] = i
	}
	for _, e := range n.entries {
		i, ok := names[e.name]
		if !ok {
			c.unknown(e, names, path)
			continue
		}
		c.decode(e.value, v.Field(i), join(path, e.name))
	}
}

func (c *check) unknown(e entry, names map[string]int, path []string) {
	var known []string
	for name := range names {
		known = append(known, name)
	}
	slices.Sort(known)
	remedy := "use one of " + strings.Join(known, ", ")
	if near := policy.Nearest(e.name, slices.Values(known)); near != "" {
		remedy = fmt.Sprintf("did you mean %s?", near)
	}
	c.at(&node{line: e.line, column: e.column}, field(join(path, e.name)), "is not a field here", remedy)
}

func (c *check) table(n *node, v reflect.Value, path []string) {
	if !c.is(n, shapeMap, path) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range n.entries {
		value := reflect.New(v.Type().Elem()).Elem()
		c.decode(e.value, value, join(path, e.name))
		v.SetMapIndex(reflect.ValueOf(e.name), value)
	}
}

func (c *check) list(n *node, v reflect.Value, path []string) {
	if !c.is(n, shapeList, path) {
		return
	}
	for i, item := range n.items {
		value := reflect.New(v.Type().Elem()).Elem()
		c.decode(item, value, join(path, strconv.Itoa(i)))
		v.Set(reflect.Append(v, value))
	}
}

// valueOf is the settable value behind a pointer.
func valueOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }
