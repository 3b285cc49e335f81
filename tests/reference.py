"""A slow, plain NumPy oracle for the engine. It imports nothing of ours and follows the papers letter by letter.

Ratings are a dense float matrix (M, N) with NaN where there is no rating; everything is float64.
"""

import numpy as np

MASK_64 = (1 << 64) - 1
DISLIKED = -0.25  # x of a dislike in EASE and neighbors


# --- baselines and eq. 1 of [004] ------------------------------------------------------------------------------------


def baselines(matrix):
    """(μ, b̄_i, b̄_j): mean of all, user mean − μ, item mean − μ; 0 where a row has no rating."""
    rated = ~np.isnan(matrix)
    if not rated.any():
        return 0.0, np.zeros(matrix.shape[0]), np.zeros(matrix.shape[1])
    mean = matrix[rated].mean()
    users = np.array([row[has].mean() - mean if has.any() else 0.0 for row, has in zip(matrix, rated, strict=True)])
    items = np.array([col[has].mean() - mean if has.any() else 0.0 for col, has in zip(matrix.T, rated.T, strict=True)])
    return mean, users, items


def residual(matrix, model, user, item):
    """r_ij − b̄_ij as it stands in the first neighbor sum of eq. 1; implicit feedback: 1 of a like, −1 of a dislike."""
    if model["implicit"]:
        return 1.0 if matrix[user, item] >= model["middle"] else -1.0
    return matrix[user, item] - (model["mean"] + model["user_baseline"][user] + model["item_baseline"][item])


def neighbor_sets(matrix, model, user, item):
    """(R, N): slots of S(item) that the user has rated, and has not; empty slots (−1) are in neither."""
    slots = [k for k, other in enumerate(model["neighbors"][item]) if other >= 0]
    rated = [k for k in slots if not np.isnan(matrix[user, model["neighbors"][item][k]])]
    return rated, [k for k in slots if k not in rated]


def weighted_sum(matrix, model, user, item):
    """Σ x B over what the user has rated, x 1 of a like and `DISLIKED` of a dislike; items without a slot drop out."""
    slots, total = model["item_slots"], 0.0
    for other in np.flatnonzero(~np.isnan(matrix[user])):
        x = 1.0 if matrix[user, other] >= model["middle"] else DISLIKED
        if other < len(slots):
            total += x * sum(model["listed_weights"][other][np.asarray(model["listed"][other]) == item])
        if other < len(slots) and min(slots[other], slots[item]) >= 0:
            total += x * model["item_weights"][slots[other], slots[item]]
    return total


def score(matrix, model, user, item):
    """Eq. 1, and what item weights add to it, not clipped."""
    rated, unrated = neighbor_sets(matrix, model, user, item)
    total = model["mean"] + model["user_bias"][user] + model["item_bias"][item]
    total += model["user_factors"][user] @ model["item_factors"][item] + weighted_sum(matrix, model, user, item)
    for k in rated:
        other = model["neighbors"][item][k]
        total += len(rated) ** -0.5 * residual(matrix, model, user, other) * model["explicit_weights"][item][k]
    for k in unrated:
        total += len(unrated) ** -0.5 * model["implicit_weights"][item][k]
    return total


def list_score(matrix, model, user, item):
    """What orders the lists of a user: eq. 1; explicit models take off a unit for each e-fold fewer ratings."""
    total = score(matrix, model, user, item)
    most = max(model["item_counts"][model["item_trained"]], default=0)
    if model["implicit"] or not most:
        return total
    count = min(model["item_counts"][item], most)
    return total - model["unit"] * np.log((most + 1) / (count + 1))


# --- eq. 5 of [004] --------------------------------------------------------------------------------------------------


def sgd_step(matrix, model, user, item, target, rates, weight=1.0):
    """Eq. 5 for one sample, in place, its error times `weight`.

    `rates`: steps of factors, biases and weights, then λ of each.
    """
    step, bias_step, weight_step, decay, bias_decay, weight_decay = rates
    rated, unrated = neighbor_sets(matrix, model, user, item)
    estimate = score(matrix, model, user, item)
    error = weight * (target - (1 / (1 + np.exp(-estimate)) if model["implicit"] else estimate))
    u, v = model["user_factors"][user].copy(), model["item_factors"][item].copy()
    model["user_factors"][user] += step * (error * v - decay * u)
    model["item_factors"][item] += step * (error * u - decay * v)
    model["user_bias"][user] += bias_step * (error - bias_decay * model["user_bias"][user])
    model["item_bias"][item] += bias_step * (error - bias_decay * model["item_bias"][item])
    for k in rated:
        w = model["explicit_weights"][item][k]
        pull = len(rated) ** -0.5 * error * residual(matrix, model, user, model["neighbors"][item][k])
        model["explicit_weights"][item][k] += weight_step * (pull - weight_decay * w)
    for k in unrated:
        c = model["implicit_weights"][item][k]
        model["implicit_weights"][item][k] += weight_step * (len(unrated) ** -0.5 * error - weight_decay * c)


def sgd_epoch(matrix, model, visits, rates):
    """Eq. 5 for each (user, item, target) of `visits`, with a weight or without, one after the other."""
    for user, item, target, *weight in visits:
        sgd_step(matrix, model, user, item, target, rates, *weight)


# --- ESGD ([003]) ----------------------------------------------------------------------------------------------------


def shrunk_biases(matrix, prior=5, turns=8):
    """(μ, b_i, b̂_j) by alternating Σ (r − the rest) / (n + prior), items first; 0 where a row has no rating."""
    mean = np.nanmean(matrix)
    counts = np.sum(~np.isnan(matrix), axis=1), np.sum(~np.isnan(matrix), axis=0)
    users, items = (np.zeros(n) for n in matrix.shape)
    for _ in range(turns):
        items = np.nansum(matrix - mean - users[:, None], axis=0) / (counts[1] + prior)
        users = np.nansum(matrix - mean - items, axis=1) / (counts[0] + prior)
    return mean, users, items


def esgd_visits(n_ratings, visits, stride, chunk):
    """Places of the ratings, in the order of their visits: blocks of `len(visits)`, made of chunks `stride` apart."""
    n_chunks = -(-n_ratings // chunk)
    per_block = len(visits) // chunk
    found = []
    for first in range(0, n_chunks, per_block):
        places = [c * stride % n_chunks * chunk + x for c in range(first, first + per_block) for x in range(chunk)]
        known = [first + x // chunk < n_chunks and place < n_ratings for x, place in enumerate(places)]
        found += [places[x] for x in visits if known[x]]
    return found


def esgd_epoch(samples, users, items, step, decay, item_decay):
    """Rules (2) and (3) for each (user, item, target) of `samples`, in place."""
    for user, item, target in samples:
        p, q = users[user].copy(), items[item].copy()
        error = target - p @ q
        users[user] = p + step * (error * q - decay * p)
        items[item] = q + step * (error * p - item_decay * q)


# --- ALS -------------------------------------------------------------------------------------------------------------


def als_ridge(n_ratings, n_columns, problem):
    """ρ of a row: λ n + λ0, or λ (n + N/α)^ν + λ0 for implicit feedback."""
    unrated = n_columns / problem.alpha if problem.is_implicit else 0
    return problem.regularization * (n_ratings + unrated) ** problem.exponent + problem.prior


def als_system(columns, values, fixed, problem):
    """(A + ρ I, b) of one row."""
    fixed = np.asarray(fixed, dtype=np.float64)
    z, values = fixed[columns].copy(), np.asarray(values, dtype=np.float64)
    ridge = als_ridge(len(columns), len(fixed), problem) * np.eye(fixed.shape[1])
    if problem.is_implicit:
        confidence = 1 + problem.alpha * np.abs(values)
        a = fixed.T @ fixed + (z.T * (confidence - 1)) @ z + ridge
        return a, z.T @ (confidence * (values > 0))
    targets = values - problem.mean
    if problem.biases:
        targets = targets - z[:, -1]
        z[:, -1] = 1
    return z.T @ z + ridge, z.T @ targets


def conjugate_gradients(a, b, x, n_steps, tolerance):
    """[000] Alg. 1, line 5 put right."""
    residual = b - a @ x
    p = residual.copy()
    for _ in range(n_steps):
        if np.linalg.norm(residual) <= tolerance * np.linalg.norm(b):
            break
        step = residual @ residual / (p @ a @ p)
        x = x + step * p
        new = residual - step * (a @ p)
        p = new + (new @ new) / (residual @ residual) * p
        residual = new
    return x


def als_half(rows, solved, fixed, problem):
    """One half-iteration over `rows`, a list of (columns, values), from `solved` on; by CG as in `problem` or exact."""
    result = np.zeros(solved.shape)
    for x, (columns, values) in enumerate(rows):
        if len(columns):
            a, b = als_system(columns, values, fixed, problem)
            start, rule = solved[x].astype(np.float64), (problem.n_cg_steps, problem.cg_tolerance)
            exact = problem.solver == "cholesky"
            result[x] = np.linalg.solve(a, b) if exact else conjugate_gradients(a, b, start, *rule)
    return result


def als_half_in_blocks(rows, solved, fixed, problem, n_block):
    """One half-iteration in blocks of `n_block` factors, a row's bias first; a step of CG from zero for each block."""
    fixed, n_factors = fixed.astype(np.float64), problem.n_factors
    result = np.zeros(solved.shape)
    for number, (columns, values) in enumerate(rows):
        if len(columns):
            a, b = als_system(columns, values, fixed, problem)
            x = solved[number].astype(np.float64)
            blocks = [np.arange(n_factors, len(x))] if problem.biases else []
            blocks += [np.arange(n, min(n + n_block, n_factors)) for n in range(0, n_factors, n_block)]
            for block in blocks:
                left = (b - a @ x)[block]
                step = conjugate_gradients(a[np.ix_(block, block)], left, 0 * left, problem.n_cg_steps, 0.0)
                x[block] += step
            result[number] = x
    return result


def als_estimates(users, items, problem):
    """r̂ of every pair, not clipped."""
    users, items = users.astype(np.float64), items.astype(np.float64)
    if problem.biases:
        return problem.mean + users[:, :-1] @ items[:, :-1].T + users[:, -1:] + items[:, -1]
    return problem.mean + users @ items.T


def als_data_loss(matrix, users, items, problem):
    """Σ (r − r̂)² over what is rated, or Σ c (p − x·y)² over all pairs."""
    estimates, rated = als_estimates(users, items, problem), ~np.isnan(matrix)
    if not problem.is_implicit:
        return np.sum((matrix - estimates)[rated] ** 2)
    known = np.where(rated, matrix, 0)
    return np.sum((1 + problem.alpha * np.abs(known)) * ((known > 0) - estimates) ** 2)


def als_penalty(counts, n_columns, table, problem):
    """Σ ρ |x|² of one side with these numbers of ratings."""
    ridges = np.array([als_ridge(n, n_columns, problem) for n in counts])
    return float(ridges @ np.sum(table.astype(np.float64) ** 2, axis=1))


# --- draws -----------------------------------------------------------------------------------------------------------


def mix_64(word):
    """The finaliser of SplitMix64 on a Python integer."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK_64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK_64
    return word ^ (word >> 31)


def targets(matrix, model, users, items):
    """What is learned of these ratings: their values; implicit feedback: 1 for a like, 0 for a dislike."""
    values = matrix[users, items]
    return np.where(values >= model["middle"], 1.0, 0.0) if model["implicit"] else values


def negatives(matrix, user, position, n, seed, epoch):
    """The n items drawn as negatives of the like at `position`; −1 where the user has rated all."""
    golden = 0x9E3779B97F4A7C15
    stream = mix_64((mix_64((seed + golden) & MASK_64) + epoch * golden) & MASK_64)
    key = mix_64((stream + position * golden) & MASK_64)
    unrated = np.flatnonzero(np.isnan(matrix[user])).tolist()
    choices = unrated if 2 * len(unrated) < matrix.shape[1] else list(range(matrix.shape[1]))
    drawn: list[int] = []
    while unrated and len(drawn) < n:
        key = (key + golden) & MASK_64
        choice = choices[(mix_64(key) >> 32) * len(choices) >> 32]
        drawn += [choice] if choice in unrated else []
    return drawn or [-1] * n


# --- evaluation ------------------------------------------------------------------------------------------------------


def rank(scores, competitors, item):
    """Rank from 0 of `item` among `competitors`: better scores first, equal ones by row."""
    return sorted(competitors, key=lambda other: (-scores[other], other)).index(item)


def ndcg(ranks, n_relevant, k):
    """NDCG@k of one user from the ranks of their relevant items."""
    gain = sum(1 / np.log2(r + 2) for r in ranks if r < k)
    return gain / sum(1 / np.log2(r + 2) for r in range(min(n_relevant, k)))


# --- hashing ----------------------------------------------------------------------------------------------------------


def counter_draws(seed, key, n):
    """The first n draws of splitmix64 keyed by (seed, key)."""
    state = mix_64(key ^ mix_64(seed))
    return [mix_64((state + (c + 1) * 0x9E3779B97F4A7C15) & MASK_64) for c in range(n)]


def user_signs(seed, key, n_bits):
    """Φ(H_i), ±1 (n_bits,): projection b·S + s is bit b of half-word s."""
    drawn = []
    for word in counter_draws(seed, key, 4):
        drawn += [word & 0xFFFFFFFF, word >> 32]
    halves = []
    for s in range(n_bits // 32):
        (one, _), (two, turn), (three, other_turn) = drawn_threesome(s)
        halves.append(drawn[one] ^ rotated_right(drawn[two], 8 * turn) ^ rotated_right(drawn[three], 8 * other_turn))
    return np.array([1 if half >> b & 1 else -1 for b in range(32) for half in halves])


def drawn_threesome(s):
    """Which drawn half-words make half-word s of Φ, each with the bytes that it is turned by."""
    block, x = divmod(s, 8)
    round_, kind = divmod(block, 7)
    far = [(1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 4), (2, 5)][kind]
    later, turn = divmod((round_ - kind) % 16, 4)
    return (x, 0), ((x + far[0]) % 8, turn), ((x + far[1]) % 8, later)


def rotated_right(word, n):
    return (word >> n | word << 32 - n) & 0xFFFFFFFF


def projection_sums(entries, n_items, n_bits, seed):
    """A_j = Σ Ψ Φ(H_i) over entries (user key, item, Ψ), with Python's own exact sums."""
    sums = np.zeros((n_items, n_bits), dtype=np.int64)
    for user_key, item, weight in entries:
        sums[item] += weight * user_signs(seed, user_key, n_bits)
    return sums


def most_agreeing(bits, counts, item, k):
    """The k items with ratings whose bits agree best with those of `item`, ties to the lower row."""
    others = [j for j in range(len(bits)) if j != item and counts[j]]
    if not counts[item]:
        return []
    return sorted(others, key=lambda j: (-int(np.sum(bits[j] == bits[item])), j))[:k]


def shrunk_pearson(matrix, one, other, shrinkage):
    """Pearson correlation of two columns (NaN = not rated) on their common raters, times n/(n + shrinkage)."""
    common = ~np.isnan(matrix[:, one]) & ~np.isnan(matrix[:, other])
    x, y = matrix[common, one], matrix[common, other]
    n = len(x)
    if n < 2 or x.std() < 1e-9 or y.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1]) * n / (n + shrinkage)


def one_bit_minhash(user_keys, n_bits, seed):
    """Bits (n_bits,): the lowest bit of the smallest hash of the raters, for each hash function."""
    draws = np.array([counter_draws(seed, key, n_bits) for key in user_keys], dtype=np.uint64)
    return (draws.min(axis=0) & np.uint64(1)).astype(bool)


# --- online learning --------------------------------------------------------------------------------------------------


def user_terms(matrix, model, user, items):
    """μ + b̂_j + the neighbor terms of each of `items`: the part of eq. 1 that is given when u and b are fitted."""
    bare = {**model, "user_bias": np.zeros_like(model["user_bias"])}
    bare["user_factors"] = np.zeros_like(model["user_factors"])
    return np.array([score(matrix, bare, user, item) for item in items])


def refit_user(matrix, model, user, trained, ridge, spread=0):
    """[u; b] of a user over the ratings of trained items; `ridge`: λ, λ0 of the factors, λ, λ0 of the bias.

    `spread` is added to the ridge of the factors.
    """
    items = np.flatnonzero(~np.isnan(matrix[user]) & trained)
    z = np.column_stack([model["item_factors"][items], np.ones(len(items))])
    y = matrix[user, items] - user_terms(matrix, model, user, items)
    diagonal = np.full(z.shape[1], ridge[0] * len(items) + ridge[1])
    diagonal[-1] = ridge[2] * len(items) + ridge[3]
    held = np.diag(diagonal)
    held[:-1, :-1] += spread
    return np.linalg.solve(z.T @ z + held, z.T @ y)


def spread_prior(model, trained, prior, floor):
    """What holds u back beside λ n: `prior` over the mean of v vᵀ, to which `floor` of its mean diagonal is added."""
    v = model["item_factors"][trained].astype(np.float64)
    spread = v.T @ v / len(v)
    return prior * np.linalg.inv(spread + floor * spread.diagonal().mean() * np.eye(len(spread)))


def item_observations(matrix, model, item, users):
    """x_i of each user for a new item: [u; 1; W terms; C terms]."""
    k = len(model["neighbors"][item])
    rows = np.zeros((len(users), model["user_factors"].shape[1] + 1 + 2 * k))
    for row, user in zip(rows, users, strict=True):
        rated, unrated = neighbor_sets(matrix, model, user, item)
        row[: -1 - 2 * k], row[-1 - 2 * k] = model["user_factors"][user], 1
        for slot in rated:
            row[slot - 2 * k] = len(rated) ** -0.5 * residual(matrix, model, user, model["neighbors"][item][slot])
        for slot in unrated:
            row[slot - k] = len(unrated) ** -0.5
    return rows


def item_ridge(model, item, matrix, users, ridge):
    """Diagonal for a new item; `ridge`: λ, λ0 of factors, bias and weights, each λ by how often the term takes part."""
    k = len(model["neighbors"][item])
    counts = np.full(model["user_factors"].shape[1] + 1 + 2 * k, len(users))
    counts[len(counts) - 2 * k :] = 0
    for user in users:
        rated, unrated = neighbor_sets(matrix, model, user, item)
        counts[np.array([slot - 2 * k for slot in rated] + [slot - k for slot in unrated], dtype=int)] += 1
    n_factors = model["user_factors"].shape[1]
    kinds = np.repeat([0, 1, 2], [n_factors, 1, 2 * k])
    return np.array(ridge[0::2])[kinds] * counts + np.array(ridge[1::2])[kinds]


def refit_item(matrix, model, item, ridge):
    """[v; b̂; w; c] of a new item over all its raters."""
    users = np.flatnonzero(~np.isnan(matrix[:, item]))
    x = item_observations(matrix, model, item, users)
    y = matrix[users, item] - model["mean"] - model["user_bias"][users]
    diagonal = item_ridge(model, item, matrix, users, ridge)
    return np.linalg.solve(x.T @ x + np.diag(diagonal), x.T @ y)


def logistic_gradient(x, offsets, labels, diagonal, found):
    """Gradient of Σ log-loss + ½ Σ diagonal · found²: zero at the optimum that Newton's method approaches."""
    expected = 1 / (1 + np.exp(-(offsets + x @ found)))
    return x.T @ (expected - labels) + diagonal * found


# --- non-negative factorization ([002] Alg. 1) ------------------------------------------------------------------------


def hals_step_of_h(matrix, W, H, epsilon=1e-16):
    """Lines 4 to 8; `matrix` (V, D) without NaN, W (V, K), H (K, D)."""
    H, R, S = H.copy(), matrix.T @ W, W.T @ W
    for k in range(len(H)):
        H[k] = np.maximum(epsilon, H[k] + R[:, k] - H.T @ S[:, k])
    return H


def hals_step_of_w(matrix, W, H, epsilon=1e-16):
    """Lines 10 to 16."""
    W, P, Q = W.copy(), matrix @ H.T, H @ H.T
    for k in range(len(H)):
        W[:, k] = np.maximum(epsilon, W[:, k] * Q[k, k] + P[:, k] - W @ Q[:, k])
        W[:, k] /= np.linalg.norm(W[:, k])
    return W


def hals(matrix, W, H, n_epochs):
    """[W, H] after an H step from a normalized start, then `n_epochs` of a W step and an H step each."""
    H = hals_step_of_h(matrix, W, H)
    for _ in range(n_epochs):
        W = hals_step_of_w(matrix, W, H)
        H = hals_step_of_h(matrix, W, H)
    return W, H


def exact_hals_step(table, products, gram, epsilon=1e-16):
    """The columns of `table` (n, K) in turn, each at its minimum; products (n, K) and gram (K, K) of the other side."""
    table = table.copy()
    for k in range(table.shape[1]):
        step = (products[:, k] - table @ gram[:, k]) / gram[k, k]
        table[:, k] = np.maximum(epsilon, table[:, k] + step)
    return table


def extrapolated_hals(matrix, W, H, n_epochs, epsilon=1e-16):
    """(W, H, relative error of each epoch) with exact steps from extrapolated factors (Ang & Gillis 2019, Alg. 3)."""

    def moved(table, last):
        return np.maximum(epsilon, table + share * (table - last))

    def h_step():
        return exact_hals_step(ahead_H, matrix.T @ W, W.T @ W)

    share, limit, ahead_H = 0.5, 1.0, H.T
    last_W, best_W, best_H = W, W, h_step()
    ahead_H, errors = best_H, [relative_error(matrix, W, best_H.T)]
    for _ in range(n_epochs):
        new_W = exact_hals_step(best_W, matrix @ ahead_H, ahead_H.T @ ahead_H)
        W = moved(new_W, last_W)
        new_H = h_step()
        error = relative_error(matrix, W, new_H.T)
        if error > errors[-1]:
            share, limit, ahead_H, last_W = share / 1.5, share, best_H, best_W
            errors.append(errors[-1])
        else:
            ahead_H, last_W, best_W, best_H = moved(new_H, best_H), new_W, W, new_H
            share, limit = min(limit, 1.05 * share), min(1.0, 1.01 * limit)
            errors.append(error)
    norms = np.linalg.norm(best_W, axis=0)
    return best_W / norms, (best_H * norms).T, errors[1:]


def relative_error(matrix, W, H):
    """Frobenius norm of A − WH over that of A."""
    return float(np.linalg.norm(matrix - W @ H) / np.linalg.norm(matrix))


# --- EASE ------------------------------------------------------------------------------------------------------------


def ease_weights(likes, ridge):
    """B of Steck 2019, eq. 8: P = (XᵀX + λ I)⁻¹, B_ij = −P_ij / P_jj, B_jj = 0; `likes` is X (U, I)."""
    inverse = np.linalg.inv(likes.T @ likes + ridge * np.eye(likes.shape[1]))
    weights = -inverse / np.diagonal(inverse)
    np.fill_diagonal(weights, 0)
    return weights


# --- neighbors -------------------------------------------------------------------------------------------------------


def together(likes, counts, keys, length, alpha, prior, beta, max_likes):
    """w_ij of the items j that item i lists, 0 for all others, (I, I); `likes` is x of 0 and 1, (U, I).

    c_ij = Σ_u x_ui x_uj n_u^−β, w_ij = c_ij ((d_i + h) (d_j + h))^(α−1). n^−β is rounded to 2^−20, and d is the
    largest power of √2 up to a number of ratings. The `length` largest weights stay, of equal ones those of the
    smaller `keys`.
    """
    n_likes = likes.sum(axis=1)
    of_users = np.where(n_likes <= max_likes, np.rint(np.maximum(n_likes, 1) ** -beta * 2**20) / 2**20, 0)
    sizes = 2.0 ** (np.floor(2 * np.log2(np.maximum(counts, 1)) + 1e-9) / 2) + prior
    weights = (likes.T * of_users) @ likes * np.outer(sizes, sizes) ** (alpha - 1)
    np.fill_diagonal(weights, 0)
    for line in weights:
        line[np.lexsort((keys, -line.astype(np.float32)))[length:]] = 0
    return weights


# --- next ------------------------------------------------------------------------------------------------------------


def next_inputs(history, curve, n_items):
    """The x of a user with this history, the oldest item first: `curve` (K + 1,) at the place of each item."""
    x = np.zeros(n_items)
    for k in range(1, len(curve)):
        if k <= len(history):
            x[history[-k]] += curve[k]
    return x


def next_weights(histories, curve, ridge, n_items):
    """W of `gpu.next.trainer`, from X and Y as its first lines have them; λ is `ridge` times the mean of XᵀX's
    diagonal."""
    pairs = [(history[:n], history[n]) for history in histories for n in range(1, len(history))]
    x = np.array([next_inputs(before, curve, n_items) for before, _ in pairs])
    y = np.eye(n_items)[[after for _, after in pairs]]
    gram = x.T @ x
    return np.linalg.solve(gram + ridge * np.diagonal(gram).mean() * np.eye(n_items), x.T @ y)
