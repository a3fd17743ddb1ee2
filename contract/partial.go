package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// DecodeBody reads a response body. Numbers keep their spelling. Of a body that is known to be only a beginning, it returns
// what is there; an error means that even that is not JSON.
func DecodeBody(body []byte, beginning bool) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if beginning {
		v, err := decodeBeginning(decoder, int64(len(body)), 0)
		if cutShort(err) {
			err = nil
		}
		return v, err
	}
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the document")
	}
	return v, nil
}

func cutShort(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// depthMax bounds the recursion over a document that a stranger wrote.
const depthMax = 200

func decodeBeginning(decoder *json.Decoder, end int64, depth int) (any, error) {
	if depth > depthMax {
		return nil, errors.New("nested too deeply")
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if _, ok := token.(json.Number); ok && decoder.InputOffset() == end {
		// More digits may have followed.
		return nil, io.ErrUnexpectedEOF
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for decoder.More() {
			name, err := decoder.Token()
			if err != nil {
				return object, err
			}
			v, err := decodeBeginning(decoder, end, depth+1)
			if v != nil {
				object[name.(string)] = v
			}
			if err != nil {
				return object, err
			}
		}
		_, err = decoder.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			v, err := decodeBeginning(decoder, end, depth+1)
			if v != nil || err == nil {
				list = append(list, v)
			}
			if err != nil {
				return list, err
			}
		}
		_, err = decoder.Token()
		return list, err
	}
	return token, nil
}
