package contract

// The shapes below are the file's, field by field; reader turns them into a Contract.
type (
	fileContract struct {
		Contract   string                   `yaml:"contract"`
		Title      string                   `yaml:"title"`
		Hosts      []string                 `yaml:"hosts"`
		Scope      []fileScope              `yaml:"scope"`
		Signed     *fileSigned              `yaml:"signed"`
		Answer     string                   `yaml:"answer"`
		Credential *fileCredential          `yaml:"credential"`
		APIVersion string                   `yaml:"api_version"`
		Sources    map[string]fileSource    `yaml:"sources"`
		ReplayMark *fileReplayMark          `yaml:"replay_mark"`
		Failure    fileFailure              `yaml:"failure"`
		Otherwise  *fileOtherwise           `yaml:"otherwise"`
		Operations map[string]fileOperation `yaml:"operations"`
		Requests   []fileRequest            `yaml:"requests"`
	}
	fileScopeForm struct {
		Part    string `yaml:"part"`
		In      string `yaml:"in"`
		Name    string `yaml:"name"`
		Default string `yaml:"default"`
	}
	fileSigned struct {
		Kind    string `yaml:"kind"`
		Service string `yaml:"service"`
		Header  string `yaml:"header"`
	}
	fileOtherwise struct {
		Reads  []string `yaml:"reads"`
		Writes string   `yaml:"writes"`
	}
	fileRequest struct {
		Name   string            `yaml:"name"`
		Method string            `yaml:"method"`
		Path   string            `yaml:"path"`
		Query  string            `yaml:"query"`
		Header map[string]string `yaml:"header"`
		Body   any               `yaml:"body"`
		Text   *string           `yaml:"text"`
		Want   string            `yaml:"want"`
	}
	fileCredential struct {
		Header string `yaml:"header"`
		Prefix string `yaml:"prefix"`
	}
	fileSource struct {
		URL     string `yaml:"url"`
		Checked string `yaml:"checked"`
		Grade   string `yaml:"grade"`
		Says    string `yaml:"says"`
	}
	fileReplayMark struct {
		Header string `yaml:"header"`
		Value  string `yaml:"value"`
	}
	fileFailure struct {
		Code    []string `yaml:"code"`
		Message []string `yaml:"message"`
	}
	fileOperation struct {
		Like         string            `yaml:"like"`
		Method       string            `yaml:"method"`
		Path         string            `yaml:"path"`
		Where        []fileCondition   `yaml:"where"`
		Effect       string            `yaml:"effect"`
		EffectSource string            `yaml:"effect_source"`
		Encoding     string            `yaml:"encoding"`
		Answer       string            `yaml:"answer"`
		Scope        []fileScope       `yaml:"scope"`
		Signed       *fileSigned       `yaml:"signed"`
		Key          *fileKey          `yaml:"key"`
		Retention    *fileRetention    `yaml:"retention"`
		Fingerprint  *fileFingerprint  `yaml:"fingerprint"`
		Replays      *fileReplays      `yaml:"replays"`
		Stamp        *fileStamp        `yaml:"stamp"`
		Reference    string            `yaml:"reference"`
		Processing   *fileSpan         `yaml:"processing"`
		LookUp       *fileLookUp       `yaml:"look_up"`
		LookUps      []fileLookUp      `yaml:"look_ups"`
		Compensation *fileCompensation `yaml:"compensation"`
		Sweep        *fileSweep        `yaml:"sweep"`
		Given        []string          `yaml:"given"`
		Verdicts     []fileRule        `yaml:"verdicts"`
		Examples     []fileExample     `yaml:"examples"`
	}
	fileCondition struct {
		In     string `yaml:"in"`
		Name   string `yaml:"name"`
		Value  any    `yaml:"value"`
		Absent bool   `yaml:"absent"`
	}
	fileSpot struct {
		In       string `yaml:"in"`
		Name     string `yaml:"name"`
		Argument string `yaml:"argument"`
		At       string `yaml:"at"`
		List     bool   `yaml:"list"`
	}
	fileCompanion struct {
		In        string `yaml:"in"`
		Name      string `yaml:"name"`
		Argument  string `yaml:"argument"`
		At        string `yaml:"at"`
		List      bool   `yaml:"list"`
		Value     any    `yaml:"value"`
		FirstSent string `yaml:"first_sent"`
	}
	fileKey struct {
		In          string          `yaml:"in"`
		Name        string          `yaml:"name"`
		Argument    string          `yaml:"argument"`
		At          string          `yaml:"at"`
		List        bool            `yaml:"list"`
		Also        []fileSpot      `yaml:"also"`
		Companions  []fileCompanion `yaml:"companions"`
		Encoding    string          `yaml:"encoding"`
		LengthMin   int             `yaml:"length_min"`
		LengthMax   int             `yaml:"length_max"`
		Charset     string          `yaml:"charset"`
		Prefix      string          `yaml:"prefix"`
		Minted      string          `yaml:"minted"`
		Required    bool            `yaml:"required"`
		ServerMints bool            `yaml:"server_mints"`
		Source      string          `yaml:"source"`
	}
	fileRetention struct {
		Kind         string `yaml:"kind"`
		AtLeast      string `yaml:"at_least"`
		Forever      bool   `yaml:"forever"`
		Starts       string `yaml:"starts"`
		After        string `yaml:"after"`
		BodyBytesMax int    `yaml:"body_bytes_max"`
		Source       string `yaml:"source"`
	}
	fileFingerprint struct {
		Provider string   `yaml:"provider"`
		Exclude  []string `yaml:"exclude"`
		Headers  []string `yaml:"headers"`
		Source   string   `yaml:"source"`
	}
	fileReplays struct {
		Success string `yaml:"success"`
		Errors  string `yaml:"errors"`
		Source  string `yaml:"source"`
	}
	fileStamp struct {
		In        string `yaml:"in"`
		Field     string `yaml:"field"`
		At        string `yaml:"at"`
		List      bool   `yaml:"list"`
		Path      string `yaml:"path"`
		Echoed    bool   `yaml:"echoed"`
		LengthMax int    `yaml:"length_max"`
		Append    string `yaml:"append"`
		InLookUp  bool   `yaml:"in_look_up"`
		Source    string `yaml:"source"`
	}
	fileCompensation struct {
		Operation string `yaml:"operation"`
		By        string `yaml:"by"`
		Source    string `yaml:"source"`
	}
	fileSpan struct {
		AtMost string `yaml:"at_most"`
		Source string `yaml:"source"`
	}
	fileLookUp struct {
		Name         string            `yaml:"name"`
		Method       string            `yaml:"method"`
		Encoding     string            `yaml:"encoding"`
		Path         string            `yaml:"path"`
		Query        map[string]string `yaml:"query"`
		Header       map[string]string `yaml:"header"`
		Body         map[string]any    `yaml:"body"`
		Answer       string            `yaml:"answer"`
		Match        string            `yaml:"match"`
		Single       bool              `yaml:"single"`
		Items        string            `yaml:"items"`
		Stamp        string            `yaml:"stamp"`
		Key          string            `yaml:"key"`
		Reference    string            `yaml:"reference"`
		AbsentStatus []int             `yaml:"absent_status"`
		Paging       filePaging        `yaml:"paging"`
		Consistency  string            `yaml:"consistency"`
		Lag          *fileSpan         `yaml:"lag"`
		Horizon      string            `yaml:"horizon"`
		AbsentMeans  string            `yaml:"absent_means"`
		Source       string            `yaml:"source"`
	}
	filePaging struct {
		Kind      string `yaml:"kind"`
		Parameter string `yaml:"parameter"`
		More      string `yaml:"more"`
		Next      string `yaml:"next"`
		First     *int   `yaml:"first"`
	}
	fileRule struct {
		When          fileMatch `yaml:"when"`
		Verdict       string    `yaml:"verdict"`
		Authoritative bool      `yaml:"authoritative"`
		StoredError   bool      `yaml:"stored_error"`
		Reference     string    `yaml:"reference"`
		Proves        string    `yaml:"proves"`
		Reason        string    `yaml:"reason"`
		Source        string    `yaml:"source"`
	}
	fileMatch struct {
		Status  any               `yaml:"status"`
		Header  map[string]string `yaml:"header"`
		Body    map[string]any    `yaml:"body"`
		Missing []string          `yaml:"missing"`
		Text    any               `yaml:"text"`
		Attempt string            `yaml:"attempt"`
	}
	fileExample struct {
		Name          string            `yaml:"name"`
		Resend        bool              `yaml:"resend"`
		Status        int               `yaml:"status"`
		Header        map[string]string `yaml:"header"`
		Body          any               `yaml:"body"`
		Text          *string           `yaml:"text"`
		Want          string            `yaml:"want"`
		Authoritative bool              `yaml:"authoritative"`
		StoredError   bool              `yaml:"stored_error"`
		Reference     string            `yaml:"reference"`
		Proves        string            `yaml:"proves"`
	}
)

// fileScope is a scope part: its name, or an object that says where a request shows it.
type fileScope struct{ fileScopeForm }

// UnmarshalYAML reads either form.
func (f *fileScope) UnmarshalYAML(unmarshal func(any) error) error {
	var name string
	if unmarshal(&name) == nil {
		f.Part = name
		return nil
	}
	return unmarshal(&f.fileScopeForm)
}
