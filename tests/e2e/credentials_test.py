#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Credentials from every place, through doors that check each signature: they are renewed in time, and their givers fail."""

import os
import stat
import sys

from lib import HERE, SLOW, Sidecar, check, check_equal, main, make_stream, need_emulators, test, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(HERE), "doubles"))
import credentials  # noqa: E402

LIFE = 10 * SLOW  # Of keys, in seconds: some renewals in a test. Half of it is left when they begin.
FORGOTTEN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")


def write(folder, name, text, mode=0o600):
    """A file that is there whole or not at all, as whoever rotates tokens does it."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)
    return path


class Stage:
    """A world, a door before the lease tables, and sidecars that read a local stream."""

    def __init__(self, folder, life=LIFE):
        self.folder = folder
        self.world = credentials.World(life)
        self.dynamodb = self.world.gate("dynamodb", os.environ["KS_DYNAMODB_URL"])
        self.kinesis = self.world.gate("kinesis", os.environ["KS_KINESIS_URL"]) if "KS_KINESIS_URL" in os.environ else None

    def sidecar(self, name, env, **options):
        # The tables outlive a test.
        settings = {"application": os.path.basename(self.folder) + "-" + name, "lease_duration_ms": 2000 * SLOW, "log_level": "debug", **options}
        if "source" not in settings:
            settings["source"] = "local:" + os.path.join(self.folder, name + ".db")
        sidecar = Sidecar(self.folder, name, leases="dynamodb", **settings)
        for variable in FORGOTTEN:
            sidecar.env.pop(variable, None)
        sidecar.env.update({"HOME": self.folder, "AWS_ENDPOINT_URL_STS": self.world.sts.url,
                            "AWS_ENDPOINT_URL_DYNAMODB": self.dynamodb.url, "AWS_EC2_METADATA_DISABLED": "true", **env})
        if self.kinesis is not None:
            sidecar.env["AWS_ENDPOINT_URL_KINESIS"] = self.kinesis.url
        return sidecar

    def expect_nothing_refused(self):
        check_equal(self.world.refused, [], "the doors refused something")

    # --- Places; each returns the environment that leads there ---

    def static_keys(self):
        keys = self.world.issue("user", permanent=True)
        return {"AWS_ACCESS_KEY_ID": keys.access, "AWS_SECRET_ACCESS_KEY": keys.secret}

    def pod(self, principal="pod"):
        token = credentials.secrets.token_urlsafe(60)
        self.world.container_tokens[token] = principal
        return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.world.container.url + "/v1/credentials",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": write(self.folder, principal + ".token", token)}

    def instance(self, path=""):
        return {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.world.imds.url + path}

    def service_account(self, role):
        token = credentials.secrets.token_urlsafe(200)
        self.world.web_tokens[token] = role
        return {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": write(self.folder, "web.token", token + "\n")}

    def role_in_profile(self):
        """A role on a role on keys."""
        keys = self.world.issue("user of the profile", permanent=True)
        outer, inner = "arn:aws:iam::123456789012:role/outer", "arn:aws:iam::123456789012:role/inner"
        self.world.trust[inner] = ("user of the profile", "shibboleth")
        self.world.trust[outer] = ("role " + inner, None)
        return {"AWS_PROFILE": "outer",
                "AWS_CONFIG_FILE": write(self.folder, "config", f"[profile outer]\nrole_arn = {outer}\nsource_profile = inner\n"
                                         f"[profile inner]\nrole_arn = {inner}\nsource_profile = base\n"
                                         "external_id = shibboleth\nrole_session_name = e2e\n"),
                "AWS_SHARED_CREDENTIALS_FILE": write(self.folder, "credentials", "[base]\n"
                                                     f"aws_access_key_id = {keys.access}\n"
                                                     f"aws_secret_access_key = {keys.secret}\n")}

    def role_on_instance(self):
        role = "arn:aws:iam::123456789012:role/on-instance"
        self.world.trust[role] = ("instance v2", None)
        return {**self.instance(), "AWS_CONFIG_FILE": write(self.folder, "config-instance", "[default]\n"
                                                            f"role_arn = {role}\ncredential_source = Ec2InstanceMetadata\n")}

    def process(self):
        """A program that gets them from the container endpoint."""
        token = credentials.secrets.token_urlsafe(60)
        self.world.container_tokens[token] = "process"
        write(self.folder, "give keys", f"#!{sys.executable}\n"
              "import json, sys, urllib.request\n"
              f"request = urllib.request.Request('{self.world.container.url}/', headers={{'Authorization': sys.argv[1],"
              " 'Accept': 'application/json'})\n"
              "keys = json.load(urllib.request.urlopen(request))\n"
              "print('working', keys, file=sys.stderr)\n"
              "keys.update(Version=1, SessionToken=keys.pop('Token'))\n"
              "json.dump(keys, sys.stdout)\n", stat.S_IRWXU)
        return {"AWS_CONFIG_FILE": write(self.folder, "config-process",
                                         f"[default]\ncredential_process = '{self.folder}/give keys' {token}\n")}


def wait_for_renewals(stage, principals, count):
    """Each principal comes with `count` more different keys."""
    before = stage.world.users("dynamodb")

    def enough():
        now = stage.world.users("dynamodb")
        return all(now.get(one, 0) >= before.get(one, 0) + count for one in principals)
    wait_until(enough, 10 * LIFE * count, f"{principals} come with {count} more keys, besides {before}", every=0.2)


@test(180)
def keys_of_every_place_are_renewed_before_they_end(folder):
    stage = Stage(folder)
    web = "arn:aws:iam::123456789012:role/web"
    places = {"pod": stage.pod(), "instance v2": stage.instance(), "instance v1": stage.instance("/v1"),
              "role " + web: stage.service_account(web),
              "role arn:aws:iam::123456789012:role/outer": stage.role_in_profile(),
              "role arn:aws:iam::123456789012:role/on-instance": stage.role_on_instance(), "process": stage.process()}
    sidecars = [stage.sidecar(f"place-{at}", env).start(ready=False) for at, env in enumerate(places.values())]
    for sidecar in sidecars:
        sidecar.wait_ready(60)
    wait_for_renewals(stage, places, 2)
    for at, asked in ((0, ("container,GetCredentials",)), (1, ("imds,GetToken", "imds,GetRole", "imds,GetCredentials")),
                      (3, ("sts,AssumeRoleWithWebIdentity",)), (4, ("sts,AssumeRole",))):
        told = sidecars[at].ops("/metrics").body.decode()
        for service, operation in (pair.split(",") for pair in asked):
            for metric in ("requests_total", "request_duration_seconds_count"):
                check(f'kinesis_sidecar_aws_{metric}{{service="{service}",operation="{operation}"}} ' in told, metric, told)

    # The tokens of pod and service account are rotated; the old ones are good until everybody has seen the new ones.
    old = []
    for tokens, principal, name in ((stage.world.container_tokens, "pod", "pod.token"), (stage.world.web_tokens, web, "web.token")):
        old += [(tokens, token) for token, of in tokens.items() if of == principal]
        new = credentials.secrets.token_urlsafe(100)
        tokens[new] = principal
        write(folder, name, new)
    wait_for_renewals(stage, ["pod", "role " + web], 1)
    for tokens, token in old:
        del tokens[token]
    wait_for_renewals(stage, ["pod", "role " + web], 1)
    stage.expect_nothing_refused()
    for sidecar in sidecars:
        check(sidecar.is_ready(), "not ready", sidecar.log)
        sidecar.stop()


@test(120)
def a_giver_that_fails_for_a_while_is_not_noticed(folder):
    stage = Stage(folder)
    web, outer = "arn:aws:iam::123456789012:role/web", "arn:aws:iam::123456789012:role/outer"
    places = {"pod": stage.pod(), "instance v2": stage.instance(), "role " + web: stage.service_account(web),
              "role " + outer: stage.role_in_profile()}
    sidecars = [stage.sidecar(f"fails-{at}", env).start() for at, env in enumerate(places.values())]
    wait_for_renewals(stage, places, 1)
    for server in (stage.world.container, stage.world.imds, stage.world.sts):
        server.broken = 503
        seen = server.requests
        wait_until(lambda server=server, seen=seen: server.requests > seen, 2 * LIFE, "it is asked while it fails")
        server.broken = None
    wait_for_renewals(stage, places, 1)
    stage.expect_nothing_refused()
    for sidecar in sidecars:
        check(sidecar.is_ready(), "not ready", sidecar.log)
        check_equal(sidecar.metric("store_up"), 1, sidecar.log)


@test(90)
def keys_that_have_ended_are_not_used_and_new_ones_are_found(folder):
    stage = Stage(folder)
    sidecar = stage.sidecar("pod", stage.pod()).start()
    wait_until(lambda: sidecar.metric("store_up") == 1, 20, "the table is asked")
    stage.world.container.broken = 500
    wait_until(lambda: sidecar.metric("store_up") == 0, 5 * LIFE, "the table cannot be asked any more")
    check(sidecar.ops("/livez").status == 200, "alive")
    stage.expect_nothing_refused()
    stage.world.container.broken = None
    wait_until(lambda: sidecar.metric("store_up") == 1, 90, "the table is asked again")
    stage.expect_nothing_refused()
    check("fetched again after" in sidecar.said(), "the end of the trouble is told")


@test(90)
def keys_of_an_instance_are_used_beyond_their_end(folder):
    stage = Stage(folder)
    stage.world.stretches = True
    sidecar = stage.sidecar("instance", stage.instance()).start()
    stage.world.imds.broken = 500
    expired = max(keys.expires_at for keys in stage.world.keys.values())
    wait_until(lambda: stage.world.now() > expired + LIFE, 5 * LIFE, "the keys are long dead")
    check(sidecar.is_ready(), "not ready")
    check_equal(sidecar.metric("store_up"), 1)
    stage.expect_nothing_refused()
    stage.world.imds.broken = None
    stage.world.stretches = False
    # Now AWS refuses them, and new ones are to be had.
    wait_for_renewals(stage, ["instance v2"], 1)
    wait_until(lambda: sidecar.metric("store_up") == 1, 60, "the table is asked again")


@test(60)
def keys_that_aws_calls_expired_are_dropped(folder):
    stage = Stage(folder, life=3600)
    sidecar = stage.sidecar("pod", stage.pod()).start()
    keys = stage.world.issue("user")
    stuck = stage.sidecar("stuck", {"AWS_ACCESS_KEY_ID": keys.access, "AWS_SECRET_ACCESS_KEY": keys.secret,
                                    "AWS_SESSION_TOKEN": keys.token}, log_level="info").start()
    age = stage.world.now()
    wait_until(lambda: stage.world.now() > age + 6, 20, "the keys are not brand new")
    stage.world.revoke()
    wait_for_renewals(stage, ["pod"], 1)
    wait_until(sidecar.is_ready, 20, "ready")
    check(all("ExpiredTokenException" in refusal for refusal in stage.world.refused), stage.world.refused)
    check("AWS does not take them any more" in sidecar.said(), "it is told")
    # Who has no others says it once.
    wait_until(lambda: "those that AWS does not take came again" in stuck.said(), 30, "it is told")
    again = stage.world.now()
    wait_until(lambda: stage.world.now() > again + 6, 20, "they were asked for again")
    check_equal(stuck.said().count("warn  credentials:"), 2, "lines")


@test(60)
def keys_of_a_file_are_changed_while_it_runs(folder):
    stage = Stage(folder)

    def write_keys():
        keys = stage.world.issue("user", permanent=True)
        write(folder, "credentials", f"[default]\naws_access_key_id = {keys.access}\n"
                                     f"aws_secret_access_key = {keys.secret}\n")
        return keys

    old = write_keys()
    sidecar = stage.sidecar("file", {"AWS_SHARED_CREDENTIALS_FILE": os.path.join(folder, "credentials")}).start()
    age = stage.world.now()
    wait_until(lambda: stage.world.now() > age + 6, 20, "the keys are not brand new")
    write_keys()
    del stage.world.keys[old.access]  # As if deactivated: AWS knows them no more.
    wait_for_renewals(stage, ["user"], 1)
    wait_until(lambda: sidecar.metric("store_up") == 1, 20, "the table is asked again")
    wait_until(sidecar.is_ready, 20, "ready")
    check("AWS does not take them any more" in sidecar.said(), "it is told")


@test(60)
def a_clock_that_is_an_hour_off_is_corrected(folder):
    stage = Stage(folder, life=3600)
    stage.world.skew = 3600
    stage.sidecar("outer", stage.role_in_profile()).start()
    # Each corrects his own clock once: two calls of STS, and the client of the table.
    check(1 <= len(stage.world.refused) <= 6, stage.world.refused)
    refused = len(stage.world.refused)
    wait_until(lambda: stage.dynamodb.requests > 30, 40, "the table is asked")
    check_equal(len(stage.world.refused), refused, stage.world.refused)


@test(90)
def each_service_has_its_own_role(folder):
    stage = Stage(folder)
    roles = {"kinesis": "arn:aws:iam::111111111111:role/reader", "dynamodb": "arn:aws:iam::222222222222:role/keeper"}
    stage.world.trust = {roles["kinesis"]: ("pod", "shibboleth"), roles["dynamodb"]: ("pod", None)}
    sidecar = stage.sidecar("both", stage.pod(), source="kinesis", stream="roles", kinesis_role_arn=roles["kinesis"],
                            kinesis_role_external_id="shibboleth", dynamodb_role_arn=roles["dynamodb"])
    make_stream("roles", 1)
    sidecar.start()
    wait_for_renewals(stage, ["role " + roles["dynamodb"]], 2)
    check_equal(list(stage.world.users("kinesis")), ["role " + roles["kinesis"]])
    check_equal(list(stage.world.users("dynamodb")), ["role " + roles["dynamodb"]])
    stage.expect_nothing_refused()
    shown = {option["name"]: option["value"] for option in sidecar.get("/v1/config")["options"]}
    check_equal(shown["kinesis_role_arn"], roles["kinesis"])
    check_equal(shown["kinesis_role_external_id"], "***")


@test(60)
def a_role_that_may_not_be_assumed_is_told(folder):
    stage = Stage(folder)
    role = "arn:aws:iam::111111111111:role/keeper"
    stage.world.trust[role] = ("user", "shibboleth")
    sidecar = stage.sidecar("wrong", stage.static_keys(), dynamodb_role_arn=role, dynamodb_role_external_id="sibboleth")
    sidecar.start(ready=False)
    wait_until(lambda: "AccessDenied on STS AssumeRole" in sidecar.said(), 20, "the refusal is told")
    check(sidecar.ops("/readyz").status == 503, "ready without a role")
    check("sibboleth" not in sidecar.said(), "the external id is told")


@test(90)
def no_secret_is_ever_shown(folder):
    stage = Stage(folder)
    web = "arn:aws:iam::123456789012:role/web"
    role = "arn:aws:iam::111111111111:role/keeper"
    stage.world.trust[role] = ("role " + web, "shibboleth")
    sidecars = [
        stage.sidecar("web", stage.service_account(web), dynamodb_role_arn=role, dynamodb_role_external_id="shibboleth"),
        stage.sidecar("process", stage.process()), stage.sidecar("outer", stage.role_in_profile()),
        stage.sidecar("pod", stage.pod()), stage.sidecar("instance", stage.instance())]
    for sidecar in sidecars:
        sidecar.start()
    wait_for_renewals(stage, ["role " + role, "process", "pod", "instance v2"], 1)
    # Failures say more than successes.
    stage.world.web_tokens.clear()
    stage.world.trust.clear()
    servers = (stage.world.container, stage.world.imds)
    for server in servers:
        server.broken = 400
    seen = len(stage.world.refused)
    wait_until(lambda: len(stage.world.refused) > seen + 3, 5 * LIFE, "STS refuses")
    for sidecar in sidecars:
        wait_until(lambda sidecar=sidecar: "old ones go on" in sidecar.said() or "asking again" in sidecar.said(), 5 * LIFE,
                   "the failure is told")
        shown = sidecar.said()
        for path in ("/v1/config", "/v1/status", "/v1/workers", "/v1/leases"):
            shown += sidecar.call("GET", path).body.decode()
        for path in ("/metrics", "/readyz"):
            shown += sidecar.ops(path).body.decode()
        for secret in [*stage.world.all_secrets(), "shibboleth"]:
            check(secret not in shown, f"{sidecar.log} or the API holds the secret {secret}")


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local")
    main()
