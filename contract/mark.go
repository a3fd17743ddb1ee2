package contract

import (
	"fmt"
	"regexp"
	"strings"
)

// markStamp is where the text of a mark holds the stamp.
const markStamp = "{stamp}"

var hexStamp = regexp.MustCompile(`^[0-9a-f]+$`)

// read is the stamp that a text shows: the text itself, or, of one that the stamp was appended to, what its last mark holds. A mark counts only at the
// very end and at the beginning of a line, so that a text that quotes another one is not taken for it.
func (s Stamp) read(text string) string {
	if s.Append == "" {
		return text
	}
	stamp, _ := s.mark(text)
	return stamp
}

// mark finds the stamp in the mark at the end of a text, and the text without the mark; providers may have changed the white space around it.
func (s Stamp) mark(text string) (stamp, without string) {
	before, after, _ := strings.Cut(s.Append, markStamp)
	opening, closing := strings.TrimLeft(before, " \t\r\n"), strings.TrimRight(after, " \t\r\n")
	trimmed, ends := strings.CutSuffix(strings.TrimRight(text, " \t\r\n"), closing)
	at := strings.LastIndex(trimmed, opening)
	if !ends || at < 0 || at > 0 && trimmed[at-1] != '\n' {
		return "", text
	}
	stamp = trimmed[at+len(opening):]
	if !hexStamp.MatchString(stamp) || len(stamp) != len(s.Cut(strings.Repeat("0", StampLength))) {
		return "", text
	}
	if without, exact := strings.CutSuffix(text, before+stamp+after); exact {
		return stamp, without
	}
	return stamp, strings.TrimRight(trimmed[:at], " \t\r\n")
}

// marked is the text with the stamp's mark at its end, in the place of one that is there already.
func (s Stamp) marked(text, stamp string) string {
	_, without := s.mark(text)
	return without + strings.Replace(s.Append, markStamp, s.Cut(stamp), 1)
}

// putMark appends the mark to a text of a JSON body.
func (o *Operation) putMark(r Request, stamp string) (Request, error) {
	v := newView(r)
	if err := v.readBody(); err != nil {
		return r, err
	}
	text := ""
	if at, ok := o.Stamp.Field.Find(v.json); ok && at != nil {
		if text, ok = at.(string); !ok {
			return r, fmt.Errorf("the body holds something at %s that is no text", o.Stamp.Field)
		}
	}
	return o.putBody(r, o.Stamp.spot(), o.Stamp.marked(text, stamp))
}

// dropMark takes the mark out of the decoded body, and a text that holds nothing else.
func (o *Operation) dropMark(tree any) {
	segments := o.Stamp.Field.Segments()
	text, ok := o.Stamp.Field.Find(tree)
	words, isText := text.(string)
	if _, words = o.Stamp.mark(words); ok && (text == nil || isText && words == "") {
		dropPath(tree, segments)
		return
	}
	if !isText {
		return
	}
	parent, _ := Path(strings.Join(segments[:len(segments)-1], ".")).Find(tree)
	if object, ok := parent.(map[string]any); ok {
		object[segments[len(segments)-1]] = words
	}
}

func (o *Operation) checkMark(p *problems, at string) {
	s := o.Stamp
	if s.Append == "" {
		return
	}
	if s.Place != PlaceBody || o.Encoding != EncodingJSON {
		p.add(at+".stamp.append", "is given for a place that holds no text of the caller's", "use it in a JSON body, or leave it out")
	}
	before, after, found := strings.Cut(s.Append, markStamp)
	if !found || strings.Contains(after, markStamp) || strings.TrimSpace(before) == "" || strings.TrimSpace(after) == "" {
		p.add(at+".stamp.append", "does not say where in a mark the stamp is", `write "\n\n<!-- effectonce {stamp} -->", or what else hides in such a text`)
	}
	if strings.TrimLeft(before, " \t\r\n") == before || !strings.Contains(before, "\n") {
		p.add(at+".stamp.append", "does not begin a line", "begin it with a line break")
	}
}
