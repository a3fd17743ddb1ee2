package twin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// ledgerLine is one line of the ledger file. An effect and the record of its key are one line, so that a twin killed at any
// moment has both or neither.
type ledgerLine struct {
	// Start numbers the starts and resets, which keeps request ids apart.
	Start   int           `json:"start,omitempty"`
	Refund  *Refund       `json:"refund,omitempty"`
	Record  *ledgerRecord `json:"record,omitempty"`
	Advance string        `json:"advance,omitempty"`
}

// ledgerRecord is what was remembered under a key.
type ledgerRecord struct {
	Request  Request     `json:"request"`
	First    time.Time   `json:"first"`
	Ticket   Ticket      `json:"ticket"`
	Outcome  Outcome     `json:"outcome"`
	Left     int64       `json:"left,omitempty"`
	EffectID string      `json:"effect_id,omitempty"`
	Reply    storedReply `json:"reply"`
}

// openLedger reads the file and continues it. A last line without its end is what a kill in the middle of writing leaves, and
// is cut off: it was never answered for.
func (s *Server) openLedger() error {
	file, err := os.OpenFile(s.config.LedgerFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	whole, err := s.replay(file)
	if err == nil {
		err = file.Truncate(whole)
	}
	if err == nil {
		_, err = file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.ledger = file
	return s.mirror(ledgerLine{Start: s.epoch})
}

// replay applies each whole line and returns how many bytes those are.
func (s *Server) replay(file io.Reader) (int64, error) {
	in := bufio.NewReader(file)
	var whole int64
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return 0, err
		}
		var line ledgerLine
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&line); err != nil {
			return 0, fmt.Errorf("line %d is not a ledger's: %w", n, err)
		}
		if err := s.apply(line); err != nil {
			return 0, fmt.Errorf("line %d: %w", n, err)
		}
		whole += int64(len(text))
	}
}

func (s *Server) apply(line ledgerLine) error {
	if line.Start >= s.epoch {
		s.epoch = line.Start + 1
	}
	if line.Advance != "" {
		d, err := time.ParseDuration(line.Advance)
		if err != nil {
			return err
		}
		s.advanced += d
	}
	if line.Refund != nil {
		if want := effectID(len(s.refunds) + 1); line.Refund.ID != want {
			return fmt.Errorf("effect %s stands where %s should", line.Refund.ID, want)
		}
		s.refunds = append(s.refunds, *line.Refund)
		s.model.restoreEffect(line.Refund.Effect)
	}
	if r := line.Record; r != nil {
		answer := Answer{Outcome: r.Outcome, Ticket: r.Ticket, Left: r.Left}
		for _, made := range s.refunds {
			if r.EffectID != "" && made.ID == r.EffectID {
				answer.Effect = made.Effect
			}
		}
		s.model.restoreRecord(r.Request, r.First, answer)
		s.stored[r.Ticket] = r.Reply
	}
	return nil
}

// mirror writes a line; the lock is held. Once that has failed the twin accepts nothing more, since its file
// would no longer say what happened.
func (s *Server) mirror(line ledgerLine) error {
	if s.ledger == nil || line == (ledgerLine{}) {
		return nil
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = s.ledger.Write(append(text, '\n'))
	}
	s.broken = err
	return err
}

// reset brings everything back to the start and empties the ledger file.
func (s *Server) reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	if s.ledger == nil {
		return nil
	}
	if err := s.ledger.Truncate(0); err != nil {
		return err
	}
	if _, err := s.ledger.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.mirror(ledgerLine{Start: s.epoch})
}

// restoreEffect puts back an effect of an earlier process.
func (m *Model) restoreEffect(e Effect) {
	m.effects = append(m.effects, e)
	m.spent[e.Resource] += e.Amount
	m.last = max(m.last, e.Ticket)
}

// restoreRecord puts back what was remembered under a key.
func (m *Model) restoreRecord(r Request, first time.Time, a Answer) {
	m.known[r.Key] = record{request: r, first: first, state: recordStored, answer: a}
	m.last = max(m.last, a.Ticket)
}
