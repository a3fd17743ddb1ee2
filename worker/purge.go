package worker

import (
	"context"
	"errors"
	"time"

	"github.com/effectonce/effectonce"
)

const (
	// purgeBatch bounds one piece of purging, and purgePause is what lies between two, so that callers hardly notice (S13.3).
	purgeBatch = 100
	purgePause = 100 * time.Millisecond
)

// purge removes what was kept long enough until ctx is done. Errors are logged and tried again.
func (w *Worker) purge(ctx context.Context) {
	total := 0
	for {
		pause := w.options.PurgeEvery
		purged, forgotten, err := w.guard.Purge(ctx, purgeBatch)
		total += purged + forgotten
		switch {
		case errors.Is(err, effectonce.ErrShuttingDown):
			return
		case err != nil && ctx.Err() == nil:
			w.options.Logger.Warn("purging failed; it will be tried again", "error", err, "again_in", pause.String())
		case purged == purgeBatch || forgotten == purgeBatch:
			pause = purgePause
		case total > 0:
			w.options.Logger.Info("purged what was kept long enough", "operations", total)
			total = 0
		}
		if err := w.options.Clock.Sleep(ctx, pause); err != nil {
			return
		}
	}
}
