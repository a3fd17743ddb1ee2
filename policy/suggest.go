package policy

import (
	"fmt"
	"iter"
)

// didYouMean names the nearest known word, as ", did you mean ...?", or nothing where none is near.
func didYouMean(word string, known iter.Seq[string]) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// Nearest returns the known word that differs from word by the fewest edits, at most a third of its letters; "" if
// there is none. Equals are decided by the alphabet.
func Nearest(word string, known iter.Seq[string]) string {
	const wordMax = 64
	if len(word) > wordMax {
		return ""
	}
	best, bestDistance := "", max(1, len(word)/3)+1
	for k := range known {
		if len(k) > wordMax {
			continue
		}
		d := edits(word, k)
		if d < bestDistance || (d == bestDistance && best != "" && k < best) {
			best, bestDistance = k, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
