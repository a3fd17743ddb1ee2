package policy

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/effectonce/effectonce"
)

// visible refuses a component of an id that can look like another and is not it: what people cannot see must not make a new
// identity, under which the same effect would come about again (S3.3). A component is judged after its normalisers.
//
// The tables of package unicode grow with Go releases. That changes only what is refused, never an id: see canon.EscapeComponent.
func visible(field, component string) error {
	if strings.TrimSpace(component) != component {
		return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: "begins or ends with white space",
			Remedy: "send it without, or let the policy normalise it with trim"}
	}
	for _, r := range component {
		if what := unseen(r); what != "" {
			return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: fmt.Sprintf("holds %U, %s", r, what),
				Remedy: "send the id in visible characters and plain spaces"}
		}
	}
	return nil
}

// blankBraille has no dots, so that it looks like a space although Unicode calls it a symbol.
const blankBraille = '\u2800'

// unseen says what a character is that cannot be seen, or that looks like a space and is none; "" for all others.
func unseen(r rune) string {
	switch {
	case r == ' ':
		return ""
	case unicode.IsControl(r):
		return "a control character"
	case unicode.Is(unicode.Cf, r), unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return "a format character, which cannot be seen"
	case unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp), r == blankBraille:
		return "a space or separator that is not the plain space"
	case unicode.Is(unicode.Co, r):
		return "a character for private use, which looks different to everybody"
	case r == unicode.ReplacementChar, !unicode.IsGraphic(r):
		return "which is no assigned character"
	}
	return ""
}
