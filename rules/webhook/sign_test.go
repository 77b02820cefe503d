package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The example of the specification's libraries: whoever verifies with one of them gets this signature.
func TestASignatureIsThatOfTheSpecification(t *testing.T) {
	t.Parallel()
	key, err := Key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	require.NoError(t, err)
	require.Len(t, key, 24)
	at := time.Unix(1614265330, 999)
	require.Equal(t, "1614265330", Timestamp(at))
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, []byte(`{"test": 2432232314}`)))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("id.5.body"))
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), Sign(key, "id", time.Unix(5, 0), []byte("body")))
}

func TestSecretsThatAreNone(t *testing.T) {
	t.Parallel()
	for secret, want := range map[string]string{
		"":                   "begins with whsec_",
		"hunter2hunter2":     "begins with whsec_",
		"whsec_not base64 !": "not base64",
		"whsec_c2hvcnQ=":     "has 5",
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)): "has 65",
	} {
		_, err := Key(secret)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), "c2hvcnQ")
	}
}
