package egress_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/egress"
)

// faulty answers the first request on each connection and breaks the connection after each later one, which it has received whole: as a load
// balancer does that closes idle connections a moment too late.
type faulty struct {
	net.Listener
	mu     sync.Mutex
	bodies []string
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

func (f *faulty) serve(c net.Conn) {
	defer c.Close()
	buffer := make([]byte, 64<<10)
	for first := true; ; first = false {
		n, err := c.Read(buffer)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.bodies = append(f.bodies, string(buffer[:n]))
		f.mu.Unlock()
		if !first {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	}
}

func (f *faulty) posts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, b := range f.bodies {
		if strings.HasPrefix(b, "POST") {
			n++
		}
	}
	return n
}

// net/http sends a POST with an Idempotency-Key again by itself when a reused connection breaks. Neither a guarded write nor one that passes is
// sent twice by it. (S6.2)
func TestNothingIsSentTwiceByTheTransport(t *testing.T) {
	t.Parallel()
	for name, intents := range map[string]egress.Intents{"guarded": egress.Require, "observed": egress.Observe} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t)
			w := newWorld(t, "http://"+f.Addr().String(), func(o *egress.Options) { o.Intents, o.Wait = intents, -1 })
			// The first request leaves a connection that could be reused.
			send(t, request(t, "GET", w.base+"/v1/refunds", "")).want(t, 200)
			for _, body := range []string{"amount=1", ""} {
				before := f.posts()
				r := request(t, "POST", w.base+"/v1/things", body, "Content-Type=application/x-www-form-urlencoded", "Idempotency-Key=k", "Effectonce-Intent=thing:"+body)
				send(t, r)
				if n := f.posts() - before; n != 1 {
					t.Errorf("%q: %d copies reached the provider", body, n)
				}
			}
		})
	}
	// What stands in the way: without the proxy there are two.
	f := newFaulty(t)
	client := http.Client{Transport: &http.Transport{}}
	for _, method := range []string{"GET", "POST"} {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.Addr().String()+"/v1/things", strings.NewReader("amount=1"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		if response, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
	if n := f.posts(); n != 2 {
		t.Errorf("without the proxy net/http sent %d copies, this test expects 2", n)
	}
}

const awsSecret = "AKIDHELD00000000:heldsecretheldsecret:sessiontoken"

// awsUpstream is EC2 as far as signatures go: it checks them, and remembers client tokens.
type awsUpstream struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	tokens map[string]int
	launch int
	drop   int
}

func newAWS(t *testing.T) *awsUpstream {
	u := &awsUpstream{t: t, tokens: map[string]int{}}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *awsUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !u.signed(r, body) {
		http.Error(w, "<Response><Errors><Error><Code>SignatureDoesNotMatch</Code></Error></Errors></Response>", http.StatusForbidden)
		return
	}
	fields, err := url.ParseQuery(string(body))
	if err != nil {
		u.t.Error(err)
	}
	w.Header().Set("Content-Type", "text/xml")
	u.mu.Lock()
	defer u.mu.Unlock()
	if fields.Get("Action") != "RunInstances" {
		token, ok := fields.Get("Filter.1.Value.1"), false
		if _, ok = u.tokens[token]; !ok {
			fmt.Fprint(w, "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>")
			return
		}
		fmt.Fprintf(w, "<DescribeInstancesResponse><reservationSet><item><reservationId>r-%d</reservationId><instancesSet><item><instanceId>i-1</instanceId><clientToken>%s</clientToken></item></instancesSet></item></reservationSet></DescribeInstancesResponse>", u.tokens[token], token)
		return
	}
	token := fields.Get("ClientToken")
	if _, before := u.tokens[token]; !before {
		u.launch++
		u.tokens[token] = u.launch
	}
	if u.drop > 0 {
		u.drop--
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "<RunInstancesResponse><reservationId>r-%d</reservationId></RunInstancesResponse>", u.tokens[token])
}

// signed makes the signature again, with the credential that the proxy holds.
func (u *awsUpstream) signed(r *http.Request, body []byte) bool {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return false
	}
	parts := strings.Split(awsSecret, ":")
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		return false
	}
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	for name := range strings.SplitSeq(list, ";") {
		if !strings.HasPrefix(name, "x-amz-") && r.Header.Get(name) != "" {
			again.Header.Set(name, r.Header.Get(name))
		}
	}
	again.ContentLength = int64(len(body))
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(context.Background(), aws.Credentials{AccessKeyID: parts[0], SecretAccessKey: parts[1], SessionToken: parts[2]}, again, hex.EncodeToString(sum[:]), "ec2", "eu-west-1", at); err != nil {
		u.t.Error(err)
	}
	return again.Header.Get("Authorization") == r.Header.Get("Authorization") && r.Header.Get("Authorization") != ""
}

// awsRequest is a request as the SDK makes it: signed with whatever credential the agent has, for the proxy's address.
func awsRequest(t *testing.T, base, form string, headers ...string) *http.Request {
	t.Helper()
	r := request(t, "POST", base+"/", form, append(headers, "Content-Type=application/x-www-form-urlencoded; charset=utf-8", "Amz-Sdk-Invocation-Id="+randomKey(), "Amz-Sdk-Request=attempt=1; max=3")...)
	sum := sha256.Sum256([]byte(form))
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AGENT", SecretAccessKey: "nothing"}, r, hex.EncodeToString(sum[:]), "ec2", "eu-west-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	return r
}

// The token sits in the signed body: the proxy puts its own there and signs again, for reads too. (S14.4)
func TestAWSIsSignedAgain(t *testing.T) {
	t.Parallel()
	c, err := contract.Load("aws/ec2")
	if err != nil {
		t.Fatal(err)
	}
	u := newAWS(t)
	aws := func(o *egress.Options) {
		o.Name, o.API.Contract = "ec2", c
		o.API.Credential = func(context.Context) (string, error) { return awsSecret, nil }
	}
	w := newWorld(t, u.URL, aws)
	const run = "Action=RunInstances&Version=2016-11-15&ImageId=ami-1&MinCount=1&MaxCount=1&ClientToken="
	first := send(t, awsRequest(t, w.base, run+"made-up-1", "Effectonce-Intent=launch:1")).want(t, 200, "Content-Type=text/xml", "Effectonce-Reference=r-1")
	again := send(t, awsRequest(t, w.base, run+"made-up-2", "Effectonce-Intent=launch:1")).want(t, 200, "Effectonce-Replayed=true")
	if first.body != again.body || u.launch != 1 {
		t.Errorf("%d launches: %s %s", u.launch, first.body, again.body)
	}
	send(t, awsRequest(t, w.base, "Action=DescribeInstances&Version=2016-11-15")).want(t, 200)
	send(t, awsRequest(t, w.base, run+"made-up", "Effectonce-Intent=launch:1", "Amz-Sdk-Request=attempt=2")).want(t, 200, "Effectonce-Replayed=true")
	unsigned := request(t, "POST", w.base+"/", run+"x", "Content-Type=application/x-www-form-urlencoded", "Effectonce-Intent=launch:2")
	send(t, unsigned).want(t, 400)
	// The effect happened and its answer is lost: the token finds it, and its answer cannot be made again.
	u.drop = 1
	send(t, awsRequest(t, w.base, run+"y", "Effectonce-Intent=launch:3")).want(t, 410, "Effectonce-Outcome=succeeded", "Effectonce-Proof=look_up", "Effectonce-Reference=r-2")
	if u.launch != 2 {
		t.Errorf("%d launches, want 2", u.launch)
	}
	o := stripeOptions(w.guard, u.URL)
	aws(&o)
	o.API.Credential = nil
	if _, err := egress.New(o); err == nil || !strings.Contains(err.Error(), "signed") {
		t.Errorf("a route without a credential to sign with: %v", err)
	}
}
