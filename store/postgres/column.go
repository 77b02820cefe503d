package postgres

import "github.com/jackc/pgx/v5/pgtype"

// column is an array parameter that unnest makes a column of. pgx encodes a plain slice of a struct by reflection, with
// an allocation for each element. This type returns pointers instead.
type column[T any] []T

// Dimensions implements pgtype.ArrayGetter; nil is NULL.
func (c column[T]) Dimensions() []pgtype.ArrayDimension {
	if c == nil {
		return nil
	}
	return []pgtype.ArrayDimension{{Length: int32(len(c)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (c column[T]) Index(i int) any { return &c[i] }

// IndexType implements pgtype.ArrayGetter.
func (c column[T]) IndexType() any { return new(T) }

// blobs is an array parameter of byte strings. A nil element is NULL.
type blobs = pgtype.FlatArray[[]byte]

// fieldArray is one field of at least one row, as an array parameter.
type fieldArray[T any] struct {
	rows []T
	of   func(*T) any
}

// Dimensions implements pgtype.ArrayGetter.
func (a *fieldArray[T]) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(a.rows)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (a *fieldArray[T]) Index(i int) any { return a.of(&a.rows[i]) }

// IndexType implements pgtype.ArrayGetter.
func (a *fieldArray[T]) IndexType() any { return a.of(&a.rows[0]) }
