package store

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// The stored form of an error has every field of it, and only their order is its own.
func TestAStoredErrorHasAllFields(t *testing.T) {
	t.Parallel()
	whole, stored := reflect.TypeFor[messages.Error](), reflect.TypeFor[storedError]()
	kinds := 0
	for i := range whole.NumField() {
		field := whole.Field(i)
		if field.Tag.Get("json") == "-" { // it decides and is not kept
			continue
		}
		kinds++
		kept, found := stored.FieldByName(field.Name)
		require.True(t, found, field.Name)
		require.Equal(t, field.Type, kept.Type, field.Name)
		require.Equal(t, field.Tag.Get("json"), kept.Tag.Get("json"), field.Name)
	}
	require.Equal(t, kinds, stored.NumField())

	var e messages.Error
	filled := reflect.ValueOf(&e).Elem()
	for i := range filled.NumField() {
		if whole.Field(i).Tag.Get("json") == "-" {
			continue
		}
		switch f := filled.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			f.SetBytes([]byte(`{"a":1}`))
		default:
			t.Fatal(whole.Field(i).Name)
		}
	}
	require.Equal(t, &e, DecodeError(EncodeError(&e)))
}
