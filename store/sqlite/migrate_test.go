package sqlite

import (
	"fmt"
	"strings"
	"testing"
)

func TestMigrationsSetTheirVersion(t *testing.T) {
	t.Parallel()
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != schemaVersion {
		t.Fatalf("%d migrations, and the schema's version is %d", len(files), schemaVersion)
	}
	for i, f := range files {
		if !strings.HasPrefix(f.Name(), fmt.Sprintf("%05d_", i+1)) {
			t.Errorf("migration %d is %s", i+1, f.Name())
		}
		text, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("PRAGMA user_version = %d;", i+1); !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %s", f.Name(), want)
		}
		if strings.Contains(string(text), "+goose Down") {
			t.Errorf("%s goes backward", f.Name())
		}
	}
}
