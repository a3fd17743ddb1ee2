package provider

import (
	"maps"
	"net/url"
	"slices"
)

// frozenLookUp renders the look-up from the rendered request: {body.payment_intent}, {argument.order_id}.
func (h *HTTP) frozenLookUp(arguments, body map[string]any) (*frozenLookUp, error) {
	l := h.operation.LookUp
	if l == nil {
		return nil, nil
	}
	f := &frozenLookUp{Items: l.Items, Stamp: l.Stamp, Reference: l.Reference, Paging: l.Paging}
	known := map[string]any{"body": body, "argument": arguments}
	var err error
	var present bool
	if f.Path, present, err = lookUpParts(l.Path, known, asIs, url.PathEscape); err != nil || !present {
		return nil, invalid("look_up.path", reason(err), "use {body.name} or {argument.name}")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Query)) {
		value, present, err := lookUpParts(l.Query[name], known, url.QueryEscape, url.QueryEscape)
		if err != nil {
			return nil, invalid("look_up.query."+name, reason(err), "use {body.name} or {argument.name}, with ? where it may be absent")
		}
		if !present {
			continue
		}
		start := url.QueryEscape(name) + "="
		if len(f.Query) > 0 {
			start = "&" + start
		}
		f.Query = append(append(f.Query, part{Text: start}), value...)
	}
	f.Query = merged(f.Query)
	if f.Headers, err = h.headerParts(arguments, false); err != nil {
		return nil, err
	}
	return f, nil
}

func reason(err error) string {
	if err == nil {
		return "is empty"
	}
	return err.Error()
}

// lookUpParts fills a look-up's template; literal escapes its own text, escape the values.
func lookUpParts(template string, known any, literal, escape func(string) string) (p parts, present bool, err error) {
	pieces, err := parsePieces(template)
	if err != nil {
		return nil, false, err
	}
	for _, one := range pieces {
		switch insert(one.name) {
		case "":
			p = append(p, part{Text: literal(one.text)})
			continue
		case insertKey, insertStamp, insertReference:
			p = append(p, part{Insert: insert(one.name)})
			continue
		}
		s, present, err := text([]piece{one}, known)
		if err != nil || !present {
			return nil, false, err
		}
		p = append(p, part{Text: escape(s)})
	}
	return merged(p), true, nil
}
