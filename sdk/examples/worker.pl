#!/usr/bin/perl
# A Troupe worker in Perl, with nothing but Perl's own modules: every rule of docs/protocol.md in one small loop. It
# serves any action by returning its parameters and a count per session. It works in one thread, so it answers ping
# and cancel after a run, and says so by declaring neither.
use strict;
use warnings;
use JSON::PP;

my $FRAME_MAX = 16 * 1024 * 1024;
my $json      = JSON::PP->new->utf8->canonical->allow_nonref;
my %sessions;    # id => { epoch, count }

open(my $in,  '<&=', 3) or die "open descriptor 3: $!\n";
open(my $out, '>&=', 4) or die "open descriptor 4: $!\n";
binmode $_ for $in, $out;

# Returns exactly $size bytes, or undef at the end of the input.
sub read_bytes {
    my ($size) = @_;
    my $data = '';
    while (length $data < $size) {
        my $got = sysread($in, $data, $size - length $data, length $data);
        return undef unless $got;
    }
    return $data;
}

sub read_frame {
    my $head = read_bytes(4);
    return undef unless defined $head;
    my $size = unpack 'N', $head;
    die "a frame of $size bytes\n" if $size == 0 || $size > $FRAME_MAX;
    my $body = read_bytes($size);
    return undef unless defined $body;
    my $request = eval { $json->decode($body) };
    return $request if ref $request eq 'HASH' && defined $request->{command};
    # A frame of the right length that cannot be decoded is an error of its request, whose id comes first.
    die "a frame is not a request\n" unless $body =~ /^\s*\{\s*"id"\s*:\s*(\d{1,15})\s*[,}]/;
    return { id => $1 + 0, command => '', broken => $@ || 'a request has a command' };
}

sub send_frame {
    my $body  = $json->encode($_[0]);
    my $frame = pack('N', length $body) . $body;
    my $sent  = 0;
    while ($sent < length $frame) {
        my $wrote = syswrite($out, $frame, length($frame) - $sent, $sent);
        exit 0 unless defined $wrote;    # the node is gone
        $sent += $wrote;
    }
}

sub result { my ($id, $data) = @_; send_frame({ event => 'result', id => $id, data => $data }) }

sub failure {
    my ($id, $code, $message) = @_;
    send_frame({ event => 'error', id => $id, error => { code => $code, message => $message } });
}

sub hello {
    my ($args) = @_;
    die "the node speaks protocol $args->{protocol}, this worker 1\n" if $args->{protocol} != 1;
    return {
        protocol     => 1,
        sdk          => 'perl-example',
        version      => '1',
        pid          => $$ + 0,
        capabilities => { sessions => JSON::PP::true, snapshot => JSON::PP::true },
    };
}

# The session's own hash: a newer epoch starts with an empty one.
sub session {
    my ($told) = @_;
    my $held = $sessions{ $told->{id} };
    if (!$held || $held->{epoch} < $told->{epoch}) {
        $held = $sessions{ $told->{id} } = { epoch => $told->{epoch}, count => 0 };
    }
    return $held;
}

sub execute {
    my ($id, $args) = @_;
    my $count = $args->{session} ? ++session($args->{session})->{count} : undef;
    send_frame({ event => 'progress', id => $id, fraction => 1, message => 'done' });
    return { parameters => $args->{parameters}, count => $count };
}

sub end_session {
    my ($args) = @_;
    my $held = $sessions{ $args->{session} };
    delete $sessions{ $args->{session} } if $held && $held->{epoch} <= $args->{epoch};
    return {};
}

my %commands = (
    hello        => sub { hello($_[1]) },
    execute      => \&execute,
    ping         => sub { {} },
    cancel       => sub { {} },
    health_check => sub { {} },
    end_session  => sub { end_session($_[1]) },
    snapshot     => sub { my $held = $sessions{ $_[1]{session} }; { state => $held ? $held->{count} : undef } },
    restore      => sub {
        my ($id, $args) = @_;
        $sessions{ $args->{session} } = { epoch => $args->{epoch}, count => $args->{state} || 0 };
        return {};
    },
);

while (my $request = read_frame()) {
    my ($id, $command) = @$request{qw(id command)};
    if ($request->{broken}) {
        failure($id, 'invalid_request', "$request->{broken}");
        next;
    }
    if ($command eq 'shutdown') {
        result($id, {});
        exit 0;
    }
    my $run = $commands{$command};
    if (!$run) {
        failure($id, 'unknown_command', "unknown command $command");
        next;
    }
    my $data = eval { $run->($id, $request->{args} || {}) };
    $@ ? failure($id, 'action_error', $@) : result($id, $data);
}
