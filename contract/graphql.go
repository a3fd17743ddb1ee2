package contract

import (
	"encoding/json"
	"errors"
	"strings"
)

// graphqlOperation is the operation that a GraphQL request executes, as far as matching and a directive need it: its kind and the
// fields at its root, with their places in the text.
type graphqlOperation struct {
	kind   string // query, mutation or subscription
	fields []graphqlField
}

type graphqlField struct {
	alias, name string
	end         int // behind its arguments, where a directive can be put
	directives  []graphqlDirective
}

type graphqlDirective struct {
	name       string
	start, end int
	arguments  map[string]graphqlArgument
}

type graphqlArgument struct {
	start, end int
	variable   string
}

var errGraphQL = errors.New("the GraphQL document cannot be read")

// parseGraphQL finds the operation of a document: the one of that name, or the only one. What it does not understand (fragments at
// the root among others) is an error, so that no effect is overlooked.
func parseGraphQL(text, name string) (graphqlOperation, error) {
	s := graphqlScanner{text: text}
	var found []graphqlOperation
	for s.next(); s.token != ""; {
		op := graphqlOperation{kind: "query"}
		opName := ""
		switch s.token {
		case "{":
		case "query", "mutation", "subscription":
			op.kind = s.token
			if s.next(); isName(s.token) {
				opName = s.token
				s.next()
			}
			if s.token == "(" {
				s.skipGroup()
			}
			s.directives()
		case "fragment":
			for s.token != "{" && s.token != "" {
				s.next()
			}
			s.skipGroup()
			continue
		default:
			return op, errGraphQL
		}
		if s.token != "{" {
			return op, errGraphQL
		}
		op.fields = s.selection()
		if s.broken {
			return op, errGraphQL
		}
		if name == "" || opName == name {
			found = append(found, op)
		}
	}
	if s.broken || len(found) != 1 {
		return graphqlOperation{}, errGraphQL
	}
	return found[0], nil
}

type graphqlScanner struct {
	text     string
	at       int
	token    string
	start    int // of the token
	previous int // end of the token before
	broken   bool
}

func isName(t string) bool {
	return t != "" && (t[0] == '_' || t[0] >= 'a' && t[0] <= 'z' || t[0] >= 'A' && t[0] <= 'Z')
}

func nameByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c == '+' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// next reads a token; "" is the end.
func (s *graphqlScanner) next() {
	s.previous = s.at
	for s.at < len(s.text) {
		c := s.text[s.at]
		if c == '#' {
			for s.at < len(s.text) && s.text[s.at] != '\n' && s.text[s.at] != '\r' {
				s.at++
			}
			continue
		}
		if strings.IndexByte(" \t\r\n,", c) < 0 {
			break
		}
		s.at++
	}
	s.start = s.at
	if s.at == len(s.text) {
		s.token = ""
		return
	}
	rest := s.text[s.at:]
	switch c := rest[0]; {
	case strings.HasPrefix(rest, `"""`):
		for s.at += 3; !strings.HasPrefix(s.text[s.at:], `"""`); s.at++ {
			if strings.HasPrefix(s.text[s.at:], `\"""`) {
				s.at += 3
			}
			if s.at >= len(s.text) {
				s.fail()
				return
			}
		}
		s.at += 3
	case c == '"':
		s.at++
		for s.at < len(s.text) && s.text[s.at] != '"' {
			if s.text[s.at] == '\\' {
				s.at++
			}
			if s.at < len(s.text) && s.text[s.at] == '\n' {
				s.fail()
				return
			}
			s.at++
		}
		s.at = min(s.at+1, len(s.text))
	case strings.HasPrefix(rest, "..."):
		s.at += 3
	case nameByte(c):
		number := !isName(rest)
		for s.at < len(s.text) && nameByte(s.text[s.at]) && (number || isName(s.text[s.at:]) || s.text[s.at] >= '0' && s.text[s.at] <= '9') {
			s.at++
		}
	default:
		s.at++
	}
	s.token = s.text[s.start:s.at]
}

func (s *graphqlScanner) fail() {
	s.broken, s.token, s.at = true, "", len(s.text)
}

// skipGroup passes over a bracketed group, of which the present token is the opening bracket.
func (s *graphqlScanner) skipGroup() {
	depth := 0
	for s.token != "" {
		switch s.token {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		s.next()
		if depth == 0 {
			return
		}
	}
	s.fail()
}

func (s *graphqlScanner) selection() []graphqlField {
	var fields []graphqlField
	for s.next(); s.token != "}"; {
		if !isName(s.token) {
			s.fail()
			return nil
		}
		f := graphqlField{name: s.token}
		s.next()
		if s.token == ":" {
			s.next()
			f.alias, f.name = f.name, s.token
			if !isName(s.token) {
				s.fail()
				return nil
			}
			s.next()
		}
		if s.token == "(" {
			s.skipGroup()
		}
		f.end = s.previous
		f.directives = s.directives()
		if s.token == "{" {
			s.skipGroup()
		}
		fields = append(fields, f)
		if s.token == "" {
			s.fail()
			return nil
		}
	}
	s.next()
	return fields
}

func (s *graphqlScanner) directives() []graphqlDirective {
	var all []graphqlDirective
	for s.token == "@" {
		d := graphqlDirective{start: s.start, arguments: map[string]graphqlArgument{}}
		s.next()
		d.name = s.token
		s.next()
		if s.token == "(" {
			for s.next(); s.token != ")" && s.token != ""; {
				name := s.token
				if s.next(); s.token != ":" {
					s.fail()
					return nil
				}
				s.next()
				a := graphqlArgument{start: s.start}
				switch s.token {
				case "$":
					s.next()
					a.variable = s.token
					s.next()
				case "[", "{":
					s.skipGroup()
				default:
					s.next()
				}
				a.end = s.previous
				d.arguments[name] = a
			}
			s.next()
		}
		d.end = s.previous
		all = append(all, d)
	}
	return all
}

// graphqlOf reads the operation that a body executes.
func graphqlOf(body any) (graphqlOperation, string, error) {
	object, ok := body.(map[string]any)
	if !ok {
		return graphqlOperation{}, "", errGraphQL
	}
	text, ok := object["query"].(string)
	if !ok {
		return graphqlOperation{}, "", errGraphQL
	}
	name, _ := object["operationName"].(string)
	op, err := parseGraphQL(text, name)
	return op, text, err
}

// setDirective puts a directive with one argument on the only field at the operation's root. Where the document has the directive with
// a variable, the variable is returned, which is set instead, since a server refuses a variable that is not used.
func setDirective(op graphqlOperation, text, name, argument, value string) (changed, variable string, err error) {
	if len(op.fields) != 1 {
		return "", "", errors.New("the GraphQL operation has not exactly one field at its root")
	}
	spelled, err := json.Marshal(value)
	if err != nil {
		return "", "", err
	}
	field := op.fields[0]
	for _, d := range field.directives {
		if d.name != name {
			continue
		}
		if a, ok := d.arguments[argument]; ok && a.variable != "" {
			return text, a.variable, nil
		} else if ok {
			return string(applyEdits([]byte(text), []edit{{a.start, a.end, string(spelled)}})), "", nil
		}
		return string(applyEdits([]byte(text), []edit{{d.start, d.end, "@" + name + "(" + argument + ": " + string(spelled) + ")"}})), "", nil
	}
	return string(applyEdits([]byte(text), []edit{{field.end, field.end, " @" + name + "(" + argument + ": " + string(spelled) + ")"}})), "", nil
}
