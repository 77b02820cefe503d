package embedded_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/embedded"
)

// A handler reads its parameters, does its work, and returns a value that becomes the result.
func greet(_ context.Context, t *troupe.Task) (any, error) {
	var p struct {
		Name string `json:"name"`
	}
	if err := t.Bind(&p); err != nil {
		return nil, &troupe.Error{Code: "invalid_parameters", Message: err.Error()}
	}
	return map[string]string{"greeting": "hello, " + p.Name}, nil
}

func Example() {
	data, err := os.MkdirTemp("", "troupe")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(data)
	t, err := embedded.New(embedded.Config{Data: data}, troupe.Action{Name: "demo.greet", Handler: greet})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := t.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	e, err := t.Submit(ctx, troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "Ada"}})
	if err == nil {
		e, err = t.Wait(ctx, e.ID)
	}
	fmt.Println(e.Status, string(e.Result), err)
	fmt.Println(t.Stop(ctx))
	// Output:
	// completed {"greeting":"hello, Ada"} <nil>
	// <nil>
}

// A program submits in its own transaction: either both the customer and the execution exist, or neither does.
func ExampleNode_SubmitTx() {
	var (
		ctx context.Context
		db  *pgx.Conn      // connected to the database of embedded.Config.Store
		n   *embedded.Node // started
	)
	var e troupe.Execution
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO customer (name) VALUES ('Ada')")
		if err == nil {
			e, err = n.SubmitTx(ctx, tx, troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "Ada"}})
		}
		return err
	}) // the execution starts
	fmt.Println(e.ID, err)
}
