package memory

import (
	"time"

	"github.com/effectonce/effectonce"
)

// clock reads the store's clock. The caller holds the lock.
func (s *Store) clock() (time.Time, error) { return effectonce.StoreClock(s.now(), s.high) }
