package canon

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// number is a decimal that a double carries: coefficient times ten to the power of exponent.
type number struct {
	coefficient int64
	exponent    int
}

func drawNumber(t *rapid.T) number {
	return number{
		coefficient: rapid.Int64Range(-999_999_999_999, 999_999_999_999).Draw(t, "coefficient"),
		exponent:    rapid.IntRange(-30, 3).Draw(t, "exponent"),
	}
}

// spell writes the number in one of the ways JSON allows.
func (n number) spell(t *rapid.T) string {
	digits := strconv.FormatInt(n.coefficient, 10)
	exponent := n.exponent
	for range rapid.IntRange(0, 3).Draw(t, "zeros") {
		digits += "0"
		exponent--
	}
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if point := rapid.IntRange(0, len(digits)-1).Draw(t, "point"); point > 0 && digits[0] != '0' {
		exponent += len(digits) - point
		digits = digits[:point] + "." + digits[point:]
	} else if digits[0] == '0' {
		digits = "0"
	}
	if exponent == 0 && rapid.Bool().Draw(t, "no exponent") {
		return sign + digits
	}
	form := rapid.SampledFrom([]string{"%s%se%d", "%s%sE%d", "%s%se%+d", "%s%sE%+03d"}).Draw(t, "form")
	return fmt.Sprintf(form, sign, digits, exponent)
}

func (n number) equal(o number) bool { return n.rat().Cmp(o.rat()) == 0 }

func (n number) rat() *big.Rat {
	r, ok := new(big.Rat).SetString(fmt.Sprintf("%de%d", n.coefficient, n.exponent))
	if !ok {
		panic("not a number")
	}
	return r
}

func drawText(t *rapid.T) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\/\n\x00\x7fé\u20ac\ufb33😀\U0010ffff")), 0, 4, -1).Draw(t, "text")
}

func drawTree(t *rapid.T, depth int) any {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return drawText(t)
	case 3:
		return drawNumber(t)
	case 4:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = drawTree(t, depth-1)
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		object[drawText(t)] = drawTree(t, depth-1)
	}
	return object
}

func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n "}).Draw(t, "space")
}

func spellText(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < 0x20 || r == '"' || r == '\\' || rapid.Bool().Draw(t, "escaped") {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "hex"), unit)
			}
			continue
		}
		b.WriteRune(r)
	}
	b.WriteByte('"')
	return b.String()
}

// spellTree writes a tree as one of the documents that mean it.
func spellTree(t *rapid.T, v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return spellText(t, v)
	case number:
		return v.spell(t)
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			parts[i] = space(t) + spellTree(t, element) + space(t)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		names = rapid.Permutation(names).Draw(t, "order")
		parts := make([]string, len(names))
		for i, name := range names {
			parts[i] = space(t) + spellText(t, name) + space(t) + ":" + space(t) + spellTree(t, v[name])
		}
		return "{" + strings.Join(parts, ",") + space(t) + "}"
	}
	panic("unknown kind")
}

func sumOf(t *rapid.T, text string) Digest {
	v, err := Decode([]byte(text), Limits{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	digest, err := Sum(v)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return digest
}

// S4.2
func TestSpellingNeverChangesTheSum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 3)
		one, two := spellTree(t, tree), space(t)+spellTree(t, tree)+space(t)
		if sumOf(t, one) != sumOf(t, two) {
			t.Fatalf("%s and %s differ", one, two)
		}
	})
}

// changed returns the tree with exactly one material change.
func changed(t *rapid.T, v any) any {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return !v
	case string:
		return v + rapid.SampledFrom([]string{"a", " ", "\u0301", "0"}).Draw(t, "more")
	case number:
		return changedNumber(t, v)
	case []any:
		if len(v) == 0 || rapid.Bool().Draw(t, "append") {
			return append(slices.Clone(v), nil)
		}
		at := rapid.IntRange(0, len(v)-1).Draw(t, "at")
		out := slices.Clone(v)
		out[at] = changed(t, v[at])
		return out
	case map[string]any:
		return changedObject(t, v)
	}
	panic("unknown kind")
}

func changedNumber(t *rapid.T, n number) any {
	switch rapid.IntRange(0, 2).Draw(t, "change") {
	case 0:
		return strconv.FormatInt(n.coefficient, 10)
	case 1:
		return number{n.coefficient + 1, n.exponent}
	}
	if n.coefficient == 0 {
		return number{1, n.exponent}
	}
	return number{-n.coefficient, n.exponent}
}

func changedObject(t *rapid.T, object map[string]any) any {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	out := map[string]any{}
	for name, member := range object {
		out[name] = member
	}
	if len(names) == 0 {
		out["new"] = nil
		return out
	}
	name := rapid.SampledFrom(names).Draw(t, "name")
	switch rapid.IntRange(0, 2).Draw(t, "change") {
	case 0:
		delete(out, name)
	case 1:
		delete(out, name)
		out[name+"_renamed"] = object[name]
	default:
		out[name] = changed(t, object[name])
	}
	return out
}

// S4.2
func TestAMaterialChangeChangesTheSum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 3)
		one, two := spellTree(t, tree), spellTree(t, changed(t, tree))
		if sumOf(t, one) == sumOf(t, two) {
			t.Fatalf("%s and %s are one", one, two)
		}
	})
}

// S4.4: whatever is accepted, two different decimals never share a canonical form, unless one is the other's double
// printed with more digits.
func TestNumbersNeverMerge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringOfN(rapid.RuneFrom([]rune("0123456789")), 1, 17, -1)
		whole := strings.TrimLeft(digits.Draw(t, "whole"), "0")
		if whole == "" {
			whole = "0"
		}
		one := whole + "." + digits.Draw(t, "fraction")
		canonical, err := appendNumber(nil, one)
		if err != nil {
			if err.Problem != ProblemNumberUnsafe {
				t.Fatalf("%s: %v", one, err)
			}
			return
		}
		f, _ := strconv.ParseFloat(one, 64)
		n := len(significant(one).digits)
		if significant(one) != significant(string(canonical)) && (n < 16 || significant(one) != significant(strconv.FormatFloat(f, 'e', n-1, 64))) {
			t.Fatalf("%s became %s", one, canonical)
		}
	})
}

func TestNumbersAgreeWithExactArithmetic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawNumber(t), drawNumber(t)
		if rapid.Bool().Draw(t, "close") {
			b = number{a.coefficient * 10, a.exponent - 1}
		}
		left, err1 := appendNumber(nil, a.spell(t))
		right, err2 := appendNumber(nil, b.spell(t))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if (string(left) == string(right)) != a.equal(b) {
			t.Fatalf("%v and %v give %s and %s", a, b, left, right)
		}
	})
}

// Every double up to 2^53-1 that any printer may write in full is accepted and comes out as itself.
func TestDoublesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(-safeIntegerMax, safeIntegerMax).Draw(t, "double")
		want, err := Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		precision := rapid.SampledFrom([]int{-1, 15, 16, 17, 20, 40, 780}).Draw(t, "precision")
		text := strconv.FormatFloat(f, 'e', precision, 64)
		got, problem := appendNumber(nil, text)
		if precision == 15 && problem != nil || precision == 15 && string(got) != string(want) {
			return // sixteen digits do not tell every double apart
		}
		if problem != nil || string(got) != string(want) {
			t.Fatalf("%s: got %s (%v), want %s", text, got, problem, want)
		}
		back, parseErr := strconv.ParseFloat(string(want), 64)
		if parseErr != nil || back != f || math.Signbit(back) && back == 0 {
			t.Fatalf("%v came back as %v", f, back)
		}
	})
}
