package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits of a file, so that reading one is always quick.
const (
	fileBytesMax = 256 << 10
	depthMax     = 40
)

// shape is what a node of a file is.
type shape int

const (
	shapeNull shape = iota
	shapeMap
	shapeList
	shapeText
	shapeNumber
	shapeBool
)

func (s shape) String() string {
	return [...]string{"nothing", "a map", "a list", "text", "a number", "true or false"}[s]
}

// node is a value of a file, with its place. Of a value with a name, the place of a map or list is its name's.
type node struct {
	shape        shape
	line, column int
	text         string // of text and numbers, as it was written; "true" or "false"
	entries      []entry
	index        map[string]*node // entries by name
	items        []*node
}

type entry struct {
	name         string
	line, column int
	value        *node
}

// get returns the value of a name, or of the index of a list; nil if there is none.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	if n.shape == shapeList {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.items) {
			return n.items[i]
		}
		return nil
	}
	return n.index[name]
}

// nearest follows a path as far as it goes, so that a problem about what is missing points at what should have it.
func (n *node) nearest(path []string) *node {
	for _, name := range path {
		next := n.get(name)
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// parse reads one YAML document of plain data: no anchors, aliases, merge keys or tags, and every name once.
func (c *check) parse(data []byte) *node {
	root := &node{shape: shapeMap, line: 1, column: 1}
	if detail, remedy := unreadable(data); detail != "" {
		c.at(root, "", detail, remedy)
		return root
	}
	file, err := parseYAML(data)
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) && syntax.Token != nil && syntax.Token.Position != nil {
			at := &node{line: syntax.Token.Position.Line, column: syntax.Token.Position.Column}
			c.at(at, "", "is not YAML: "+syntax.Message, "correct the syntax at this place")
			return root
		}
		c.at(root, "", "is not YAML", "correct the syntax")
		return root
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			c.at(placed(&node{}, doc.Body), "", "has a second document", "keep one document in the file")
			break
		}
		body = doc.Body
	}
	if body == nil {
		return root
	}
	n := c.convert(body, nil, 0)
	if n.shape != shapeMap && n.shape != shapeNull {
		c.at(n, "", "is "+n.shape.String()+" where sections are needed", "start with a section, such as tools:")
		return root
	}
	n.shape, n.line, n.column = shapeMap, 1, 1
	return n
}

func unreadable(data []byte) (detail, remedy string) {
	if len(data) > fileBytesMax {
		return fmt.Sprintf("has more than %d bytes", fileBytesMax), "split it, or shorten it"
	}
	if !utf8.Valid(data) {
		return "is not UTF-8", "save it as UTF-8"
	}
	open, deepest := 0, 0
	for _, b := range data {
		switch b {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		case 0:
			return "holds a zero byte", "save it as text"
		}
		deepest = max(deepest, open)
	}
	if deepest > 10*depthMax {
		return "is nested too deeply", "write it flatter"
	}
	for line := range strings.Lines(string(data)) {
		if strings.Count(line, "- ") > 10*depthMax || strings.Count(line, "? ") > 10*depthMax {
			return "is nested too deeply", "write it flatter"
		}
	}
	return "", ""
}

// parseYAML makes an error of a panic in the parser, which reads whatever a file holds.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("the parser failed: %v", p)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

func placed(n *node, from ast.Node) *node {
	if tk := from.GetToken(); tk != nil && tk.Position != nil {
		n.line, n.column = tk.Position.Line, tk.Position.Column
	}
	return n
}

func (c *check) convert(from ast.Node, path []string, depth int) *node {
	n := placed(&node{}, from)
	if depth > depthMax {
		c.at(n, field(path), fmt.Sprintf("is nested deeper than %d levels", depthMax), "write it flatter")
		return n
	}
	switch v := from.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		n.shape, n.text = shapeText, v.Value
	case *ast.LiteralNode:
		n.shape, n.text = shapeText, v.Value.Value
	case *ast.IntegerNode:
		n.shape, n.text = shapeNumber, v.Token.Value
	case *ast.FloatNode:
		n.shape, n.text = shapeNumber, v.Token.Value
	case *ast.InfinityNode:
		n.shape, n.text = shapeNumber, v.Token.Value
	case *ast.NanNode:
		n.shape, n.text = shapeNumber, v.Token.Value
	case *ast.BoolNode:
		n.shape, n.text = shapeBool, "false"
		if v.Value {
			n.text = "true"
		}
	case *ast.SequenceNode:
		n.shape = shapeList
		for i, item := range v.Values {
			n.items = append(n.items, c.convert(item, join(path, strconv.Itoa(i)), depth+1))
		}
	case *ast.MappingNode:
		n.shape = shapeMap
		for _, value := range v.Values {
			c.convertEntry(n, value, path, depth)
		}
	case *ast.MappingValueNode:
		n.shape = shapeMap
		c.convertEntry(n, v, path, depth)
	default:
		c.at(n, field(path), "uses "+special(from), "write the value out")
	}
	return n
}

func special(n ast.Node) string {
	switch n.(type) {
	case *ast.AnchorNode:
		return "an anchor, which a configuration cannot have"
	case *ast.AliasNode:
		return "an alias, which a configuration cannot have"
	case *ast.MergeKeyNode:
		return "a merge key, which a configuration cannot have"
	case *ast.TagNode:
		return "a tag, which a configuration cannot have"
	}
	return "something of YAML that a configuration cannot have"
}

func (c *check) convertEntry(into *node, from *ast.MappingValueNode, path []string, depth int) {
	e := entry{}
	at := placed(&node{}, from.Key)
	e.line, e.column = at.line, at.column
	switch key := from.Key.(type) {
	case *ast.StringNode:
		e.name = key.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		e.name = key.GetToken().Value
	default:
		c.at(at, field(path), "uses "+special(key)+" as a name", "write a plain name")
		return
	}
	inner := join(path, e.name)
	if into.get(e.name) != nil {
		c.at(at, field(inner), "is there twice", "keep one")
		return
	}
	e.value = c.convert(from.Value, inner, depth+1)
	if e.value.shape == shapeMap || e.value.shape == shapeList || e.value.shape == shapeNull {
		e.value.line, e.value.column = e.line, e.column
	}
	into.entries = append(into.entries, e)
	if into.index == nil {
		into.index = map[string]*node{}
	}
	into.index[e.name] = e.value
}

// json writes a node as JSON. Numbers keep their spelling; YAML's other spellings are refused before.
func (n *node) json() any {
	switch n.shape {
	case shapeMap:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			m[e.name] = e.value.json()
		}
		return m
	case shapeList:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.json()
		}
		return list
	case shapeText:
		return n.text
	case shapeNumber:
		return json.Number(n.text)
	case shapeBool:
		return n.text == "true"
	}
	return nil
}

// field joins a path for people.
func field(path []string) string { return strings.Join(path, ".") }
