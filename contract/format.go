package contract

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
)

// decode reads an answer into maps, lists and texts. Of a beginning it returns what is there, where the format allows it.
func (f Format) decode(body []byte, beginning bool) (any, error) {
	switch f {
	case FormatXML:
		v, err := decodeXML(body)
		if beginning && err != nil && v != nil {
			err = nil
		}
		return v, err
	case FormatForm:
		fields, err := parseForm(string(body))
		if err != nil {
			return nil, err
		}
		return formTree(fields), nil
	case FormatText:
		return nil, nil
	}
	return DecodeBody(body, beginning)
}

// result is an answer as JSON: itself, or its text.
func (f Format) result(body []byte) json.RawMessage {
	if f == FormatJSON || f == "" {
		return body
	}
	text, err := json.Marshal(strings.ToValidUTF8(string(body), "\uFFFD"))
	if err != nil {
		return nil
	}
	return text
}

// decodeXML reads a document: an element with elements in it is a map, one that occurs more than once a list, and any other its text. The
// root's name, attributes and name spaces are left out. Of a document that breaks off it returns what is there, and an error.
func decodeXML(body []byte) (any, error) {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		if _, ok := token.(xml.StartElement); !ok {
			if text, ok := token.(xml.CharData); ok && len(bytes.TrimSpace(text)) > 0 {
				return nil, errors.New("text outside of the document")
			}
			continue
		}
		return xmlElement(decoder, 0)
	}
}

func xmlElement(decoder *xml.Decoder, depth int) (any, error) {
	if depth > depthMax {
		return nil, errors.New("nested too deeply")
	}
	var text strings.Builder
	var object map[string]any
	value := func() any {
		if object != nil {
			return object
		}
		return strings.TrimSpace(text.String())
	}
	for {
		token, err := decoder.Token()
		if err != nil {
			return value(), err
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(token)
		case xml.EndElement:
			return value(), nil
		case xml.StartElement:
			child, err := xmlElement(decoder, depth+1)
			if object == nil {
				object = map[string]any{}
			}
			switch was := object[token.Name.Local].(type) {
			case nil:
				object[token.Name.Local] = child
			case []any:
				object[token.Name.Local] = append(was, child)
			default:
				object[token.Name.Local] = []any{was, child}
			}
			if err != nil {
				return object, err
			}
		}
	}
}
