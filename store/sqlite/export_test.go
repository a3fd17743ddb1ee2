package sqlite

import (
	"fmt"
	"testing"
)

// LimitPages bounds the file's size, so that it gets full.
func LimitPages(t *testing.T, s *Store, pages int) {
	t.Helper()
	err := s.w.write(t.Context(), func(b *batch) error {
		return b.querier.(*conn).once(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	})
	if err != nil {
		t.Fatal(err)
	}
}
