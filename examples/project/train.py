def step(weights, batch):
    return weights - 0.001 * batch
