package integration

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const region = "eu-west-1"

// moto starts a server that plays AWS, and returns its address. It checks no signatures; that the proxy's are right egress/ proves.
func moto(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("moto_server"); err != nil {
		unavailable(t, "moto_server is missing, which plays AWS. It is no npm or Debian package, so test.sh cannot install it: pip install 'moto[server]==5.2.1'")
	}
	port := freePort(t)
	start(t, exec.Command("moto_server", "-H", "127.0.0.1", "-p", port))
	address := "http://127.0.0.1:" + port
	answers(t, address+"/moto-api/data.json")
	return address
}

// awsConfig is the SDK's as it is, but for the address, a credential that the agent was given, and the agent's patience.
func awsConfig(intent string) aws.Config {
	config := aws.Config{
		Region: region, Credentials: credentials.NewStaticCredentialsProvider("AKIDAGENT", "agent", ""),
		HTTPClient: &http.Client{Timeout: patience},
	}
	if intent != "" {
		config.APIOptions = []func(*middleware.Stack) error{smithyhttp.AddHeaderValue("Effectonce-Intent", intent)}
	}
	return config
}

// awsDaemon is the daemon with a route for a service. It signs what it sends with a credential of its own.
func awsDaemon(t *testing.T, service, operation, address string) daemon {
	t.Helper()
	return serve(t, noBreaker+`
providers:
  aws: {contract: aws/`+service+`, base_url: "`+address+`", credential: "env:AWS_HELD"}
routes:
  - {path: aws, provider: aws, wait: 1s, accept_review: true, tools: {`+operation+`: aws.write}}
tools:
  aws.write:
    accept_review: true`+tool, "AWS_HELD=AKIDHELD:held")
}

// The SDK makes up one ClientToken for a call and its repeats. moto does not obey it, and cannot be asked by it: a provider that breaks its
// contract. Through the proxy an ambiguous end stops for a person, and there is never a second instance.
// S7.3, S14.4
func TestAWSRunInstances(t *testing.T) {
	t.Parallel()
	address := moto(t)
	w := newWireFor(t, address, func(_ *http.Request, body string) bool { return strings.Contains(body, "Action=RunInstances") })
	// moto's first launch takes seconds, in which an impatient SDK would launch again.
	patient := awsConfig("")
	patient.HTTPClient = http.DefaultClient
	_, err := ec2.NewFromConfig(patient, func(o *ec2.Options) { o.BaseEndpoint = aws.String(address) }).RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String("ami-12c6146b"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := subject{
		name: "aws-sdk-go-v2 ec2 (moto)", wire: w, route: "aws", once: true, daemon: awsDaemon(t, "ec2", "run_instances", w.URL),
		call: func(t *testing.T, base, about, intent string) error {
			_, err := ec2.NewFromConfig(awsConfig(intent), func(o *ec2.Options) { o.BaseEndpoint = aws.String(base) }).RunInstances(t.Context(), &ec2.RunInstancesInput{
				ImageId: aws.String("ami-12c6146b"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), KeyName: aws.String(about),
			})
			return err
		},
		effects: func(t *testing.T, about string) int {
			all, err := ec2.NewFromConfig(awsConfig(""), func(o *ec2.Options) { o.BaseEndpoint = aws.String(address) }).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
				Filters: []ec2types.Filter{{Name: aws.String("key-name"), Values: []string{about}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, r := range all.Reservations {
				n += len(r.Instances)
			}
			return n
		},
	}
	s.run(t)
}

// A FIFO queue drops a message whose id it has seen. The agent makes up an id for each of its calls; the proxy puts one for the intent there,
// in the signed body, and signs again.
// S14.4
func TestAWSSendMessageToFIFO(t *testing.T) {
	t.Parallel()
	address := moto(t)
	w := newWireFor(t, address, func(r *http.Request, _ string) bool { return r.Header.Get("X-Amz-Target") == "AmazonSQS.SendMessage" })
	client := func(base, intent string) *sqs.Client {
		return sqs.NewFromConfig(awsConfig(intent), func(o *sqs.Options) { o.BaseEndpoint = aws.String(base) })
	}
	queues := 0
	s := subject{
		name: "aws-sdk-go-v2 sqs FIFO (moto)", wire: w, route: "aws", settles: true, daemon: awsDaemon(t, "sqs", "send_message", w.URL),
		prepare: func(t *testing.T, _ string) string {
			queues++
			q, err := client(address, "").CreateQueue(t.Context(), &sqs.CreateQueueInput{
				QueueName: aws.String("refunds-" + strconv.Itoa(queues) + ".fifo"), Attributes: map[string]string{"FifoQueue": "true"},
			})
			if err != nil {
				t.Fatal(err)
			}
			return *q.QueueUrl
		},
		call: func(t *testing.T, base, queue, intent string) error {
			_, err := client(base, intent).SendMessage(t.Context(), &sqs.SendMessageInput{
				QueueUrl: aws.String(queue), MessageBody: aws.String(`{"refund":"order-8812"}`), MessageGroupId: aws.String("orders"), MessageDeduplicationId: aws.String(rand.Text()),
			})
			return err
		},
		effects: func(t *testing.T, queue string) int { return messages(t, client(address, ""), queue) },
		intent:  func(queue string) string { u, _ := url.Parse(queue); return "send:" + u.Path },
	}
	s.run(t)
}

func messages(t *testing.T, c *sqs.Client, queue string) int {
	t.Helper()
	a, err := c.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(queue), AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameApproximateNumberOfMessages},
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(a.Attributes["ApproximateNumberOfMessages"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
